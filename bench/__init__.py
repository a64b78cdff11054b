"""The benchmark: whole commands against pg_dump and pg_restore, and the pure core by itself."""

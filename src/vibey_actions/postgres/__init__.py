"""The PostgreSQL edge: catalog, snapshot, guarded apply, watermark, migrations, a server of our own."""

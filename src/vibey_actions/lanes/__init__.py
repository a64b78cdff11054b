"""Each docs command's work: machines, a store and steps put together from settings and the file that declares them."""

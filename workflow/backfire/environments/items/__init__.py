"""A pool of the user's own: `schema` says what an item looks like, `pool` reads the file."""

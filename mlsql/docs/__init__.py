"""The reference pages, written from what the code itself says: `python -m mlsql.docs`."""

"""The contract between engines and hosts. Nothing here knows a protocol."""

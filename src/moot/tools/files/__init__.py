"""The file tools, and path lookups that cannot leave the working directory."""

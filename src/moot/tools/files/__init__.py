"""The file tools, and path lookup confined to the working directory."""

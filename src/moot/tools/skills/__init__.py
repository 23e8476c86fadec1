"""The skill tools and the folder of skills that they read and write."""

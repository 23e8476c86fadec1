"""The skill tools and the folder of skills they read and write."""

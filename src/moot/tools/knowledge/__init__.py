"""Tools of the librarian on stored knowledge and learnings. They use the ports in domain/ports/knowledge.py."""

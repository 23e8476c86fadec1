"""Tools on the knowledge graph: `graph_*` and `ontology_*`. They use the Graph port."""

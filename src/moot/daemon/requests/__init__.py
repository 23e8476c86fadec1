"""The request handlers, one function for each message of the protocol, and the table that names them."""

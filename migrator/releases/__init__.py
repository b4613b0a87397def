"""What is known of builds of Grove's operator. Pure: bytes in, a scheme out; the command line opens the file."""

"""What client-go needs for the patches of a run: a program of ours that sends them without thinking."""

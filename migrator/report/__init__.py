"""A plan for people and for scripts: drawing, never deciding or doing."""

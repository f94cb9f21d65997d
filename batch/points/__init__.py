"""`points`: what views answered at given times, for training sets without leaks."""

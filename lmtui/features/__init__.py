"""One folder for each feature; removing a feature leaves a program that starts."""

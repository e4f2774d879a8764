// A library must have a source, also while longspan/testing has none.

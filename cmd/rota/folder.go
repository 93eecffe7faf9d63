package main

// fromFolder fills in what the rota up or rota serve of this folder knows.
func (f *memberFlags) fromFolder() error { return nil }

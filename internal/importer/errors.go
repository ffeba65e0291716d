package importer

// ReadError says that an input cannot be read. It never has the text of the input, which may be a secret.
type ReadError struct {
	Place string // file, or file:line
	What  string
	Cure  string
}

// Error returns place, what is wrong, and what to do.
func (e *ReadError) Error() string {
	s := e.Place + ": " + e.What
	if e.Cure != "" {
		s += ": " + e.Cure
	}
	return s
}

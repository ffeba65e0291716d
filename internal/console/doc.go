// Package console is the edge where events become something a person reads.
//
// Three displays listen to a run: a live one for terminals, with a line for each
// node that says what runs now and for how long; plain lines for files and pipes;
// and JSON lines for programs. Tables and plans are printed here too. Talk goes to
// standard error, data to standard output, and everything passes a redactor.
package console

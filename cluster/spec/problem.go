package spec

import (
	"fmt"
	"strings"
)

// Problem is one mistake in a file, and the cure.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`           // from 1
	Column int    `json:"column"`         // from 1
	What   string `json:"what"`           // what is wrong
	Path   string `json:"path,omitempty"` // of the field, in place of the others, if the Spec was written in Go
	Cure   string `json:"cure"`           // what to write instead; may be empty
}

// Error returns file:line:column, or a path: what is wrong; what to write instead.
func (p Problem) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.What)
	if p.Path != "" {
		s = p.Path + ": " + p.What
	}
	if p.Cure != "" {
		s += "; " + p.Cure
	}
	return s
}

// Problems are all mistakes in a file, in the order of the file. It is the error of functions
// that read a cluster file.
type Problems []Problem

// told is how many problems an error tells: a file of 5,000 nodes can have one 5,000 times.
const told = 50

// Error returns one line per problem, for the first 50.
func (p Problems) Error() string {
	var lines []string
	for i, problem := range p {
		if i == told {
			lines = append(lines, fmt.Sprintf("… and %d more, of which some may go with these", len(p)-told))
			break
		}
		lines = append(lines, problem.Error())
	}
	return strings.Join(lines, "\n")
}

// Check is a further check of a Spec. It runs after all others, with s complete, even if they found
// something wrong.
type Check func(s *Spec, r Report)

// Report takes what a [Check] finds. A place is a pointer to a field of the Spec, or what Entry and Key
// return; nil is the whole file.
type Report interface {
	IsSet(field any) bool          // the file, or the value in Go, has the field
	Entry(of any, name string) any // the place of an entry of a map, dotted in a map of maps; of points to the map
	Key(path string) any           // the place of a key of the file, such as storage.nfs
	Sound() bool                   // nothing is wrong so far
	Wrong(place any, what, cure string)
	Warn(place any, what, cure string)
}

package spec

import (
	"fmt"
	"strings"
)

// Problem is one mistake in a file, and the cure.
type Problem struct {
	File   string `json:"file"`
	Line   int    `json:"line"`   // from 1
	Column int    `json:"column"` // from 1
	What   string `json:"what"`   // what is wrong
	Cure   string `json:"cure"`   // what to write instead; may be empty
}

// Error returns file:line:column: what is wrong; what to write instead.
func (p Problem) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.What)
	if p.Cure != "" {
		s += "; " + p.Cure
	}
	return s
}

// Problems are all mistakes in a file, in the order of the file. It is the error of functions
// that read a cluster file.
type Problems []Problem

// Error returns one line per problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

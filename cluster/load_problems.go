package cluster

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
)

// Problem is one thing that is wrong in a file, and the cure.
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

// Problems is everything that is wrong in a file, in the order of the file.
// It is the error of [Load] and [Parse].
type Problems []Problem

// Error returns one line a problem.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, problem := range p {
		lines[i] = problem.Error()
	}
	return strings.Join(lines, "\n")
}

// pos is a place in the file; the zero pos is its beginning.
type pos struct{ line, col int }

// mark is what the decoder remembers about a field of the raw types.
type mark struct {
	at  pos  // where its value is, or the mapping that lacks it
	set bool // it is in the file, and not null
}

// member is the mark's key of one entry of a Go map, which has no address.
type member struct {
	of   any // pointer to the map
	name string
}

// checker collects what is wrong. The places of fields are looked up by the
// fields' own addresses, so a check reads c.wrong(&raw.VIP, …) and no path of
// names can go stale.
type checker struct {
	file     string
	marks    map[any]mark
	broken   map[pos]bool    // values that did not decode; whatever else is said about them is noise
	meant    map[string]bool // keys that are there, mistyped: that they are missing is noise as well
	seen     map[Problem]bool
	problems Problems
	warnings Problems
}

func newChecker(file string) *checker {
	return &checker{file: file, marks: map[any]mark{}, broken: map[pos]bool{}, meant: map[string]bool{}, seen: map[Problem]bool{}}
}

// isSet reports whether the field that p points to is in the file.
func (c *checker) isSet(p any) bool { return c.marks[p].set }

// place returns where at is: a pos, or a pointer to a decoded field.
func (c *checker) place(at any) pos {
	p, ok := at.(pos)
	if !ok {
		p = c.marks[at].at
	}
	return pos{max(p.line, 1), max(p.col, 1)}
}

// wrong reports a problem at a pos, or at a decoded field given by its address.
func (c *checker) wrong(at any, what, cure string) {
	if p := c.place(at); !c.broken[p] {
		c.add(&c.problems, p, what, cure)
	}
}

// undecodable reports a value that has not even the right form.
func (c *checker) undecodable(at pos, what, cure string) {
	c.add(&c.problems, c.place(at), what, cure)
	c.broken[c.place(at)] = true
}

// warn reports what is allowed and probably not meant.
func (c *checker) warn(at any, what, cure string) { c.add(&c.warnings, c.place(at), what, cure) }

func (c *checker) add(to *Problems, at pos, what, cure string) {
	p := Problem{File: c.file, Line: at.line, Column: at.col, What: printable.Text(what), Cure: printable.Text(cure)}
	if !c.seen[p] {
		c.seen[p] = true
		*to = append(*to, p)
	}
}

// line says where something else is, for "already used in line 12".
func (c *checker) line(at any) string { return fmt.Sprintf("line %d", c.place(at).line) }

// err returns all problems in the order of the file, or nil.
func (c *checker) err() error {
	if len(c.problems) == 0 {
		return nil
	}
	said := slices.DeleteFunc(c.problems, func(p Problem) bool {
		key, missing := strings.CutPrefix(p.Cure, "write ")
		key, _, named := strings.Cut(key, ":")
		return missing && named && c.meant[key]
	})
	return said.sorted()
}

func (p Problems) sorted() Problems {
	slices.SortStableFunc(p, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return p
}

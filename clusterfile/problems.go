package clusterfile

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/yamlnode"
	"github.com/cps-gpu/homelab/spec"
)

// mark is what the decoder remembers about a field of the raw types.
type mark struct {
	at  yamlnode.Pos // where its value is, or the mapping that lacks it
	set bool         // it is in the file, and not null
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
	broken   map[yamlnode.Pos]bool // values that did not decode; whatever else is said about them is noise
	meant    map[string]bool       // keys that are there, mistyped: that they are missing is noise as well
	seen     map[spec.Problem]bool
	problems spec.Problems
	warnings spec.Problems
}

func newChecker(file string) *checker {
	return &checker{file: file, marks: map[any]mark{}, broken: map[yamlnode.Pos]bool{}, meant: map[string]bool{}, seen: map[spec.Problem]bool{}}
}

// isSet reports whether the field that p points to is in the file.
func (c *checker) isSet(p any) bool { return c.marks[p].set }

// place returns where at is: a pos, or a pointer to a decoded field.
func (c *checker) place(at any) yamlnode.Pos {
	p, ok := at.(yamlnode.Pos)
	if !ok {
		p = c.marks[at].at
	}
	return yamlnode.Pos{Line: max(p.Line, 1), Col: max(p.Col, 1)}
}

// wrong reports a problem at a pos, or at a decoded field given by its address.
func (c *checker) wrong(at any, what, cure string) {
	if p := c.place(at); !c.broken[p] {
		c.add(&c.problems, p, what, cure)
	}
}

// undecodable reports a value that has not even the right form.
func (c *checker) undecodable(at yamlnode.Pos, what, cure string) {
	c.add(&c.problems, c.place(at), what, cure)
	c.broken[c.place(at)] = true
}

// warn reports what is allowed and probably not meant.
func (c *checker) warn(at any, what, cure string) { c.add(&c.warnings, c.place(at), what, cure) }

func (c *checker) add(to *spec.Problems, at yamlnode.Pos, what, cure string) {
	p := spec.Problem{File: c.file, Line: at.Line, Column: at.Col, What: printable.Text(what), Cure: printable.Text(cure)}
	if !c.seen[p] {
		c.seen[p] = true
		*to = append(*to, p)
	}
}

// line says where something else is, for "already used in line 12".
func (c *checker) line(at any) string { return fmt.Sprintf("line %d", c.place(at).Line) }

// err returns all problems in the order of the file, or nil.
func (c *checker) err() error {
	if len(c.problems) == 0 {
		return nil
	}
	said := slices.DeleteFunc(c.problems, func(p spec.Problem) bool {
		key, missing := strings.CutPrefix(p.Cure, "write ")
		key, _, named := strings.Cut(key, ":")
		return missing && named && c.meant[key]
	})
	return sorted(said)
}

func sorted(p spec.Problems) spec.Problems {
	slices.SortStableFunc(p, func(a, b spec.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	return p
}

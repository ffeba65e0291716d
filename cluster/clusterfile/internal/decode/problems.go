package decode

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/cps-gpu/homelab/cluster/spec"
	"github.com/cps-gpu/homelab/internal/printable"
	"github.com/cps-gpu/homelab/internal/yamlnode"
)

// mark is what the decoder records about a field of the sections.
type mark struct {
	at  yamlnode.Pos // place of its value, or of the mapping that lacks it
	set bool         // it is in the file, and not null
}

// member is the key of the mark of a Go map's entry, which has no address.
type member struct {
	of   any // pointer to the map
	name string
}

// Checker collects problems. It finds the place of a field by the field's own address: a check
// calls c.Wrong(&raw.VIP, …), and there is no path of names that could become outdated.
type Checker struct {
	File     string
	Dir      string // relative paths in the file are joined to it
	marks    map[any]mark
	broken   map[yamlnode.Pos]bool // values that did not decode; further problems with them are suppressed
	paths    []string              // of a value that was made in Go, by the line of their places
	refused  map[yamlnode.Pos]bool // texts that are none of their choices
	meant    map[string]bool       // mistyped keys, which are not reported as missing too
	seen     map[spec.Problem]bool
	Problems spec.Problems
	Warnings spec.Problems
	Unclear  bool // a key is twice, so that the file says two things
}

func NewChecker(file string) *Checker {
	return &Checker{File: file, Dir: filepath.Dir(file), marks: map[any]mark{}, broken: map[yamlnode.Pos]bool{}, refused: map[yamlnode.Pos]bool{}, meant: map[string]bool{}, seen: map[spec.Problem]bool{}}
}

// IsSet reports whether the field that p points to is in the file.
func (c *Checker) IsSet(p any) bool { return c.marks[p].set }

// MemberAt returns the place of an entry of a decoded Go map; of points to the map.
func (c *Checker) MemberAt(of any, name string) yamlnode.Pos { return c.marks[member{of, name}].at }

// Move says that the value of the field that p points to was that of another.
func (c *Checker) Move(p, from any) { c.marks[p] = c.marks[from] }

// PutAt gives p, which is not in the file, the place of another field.
func (c *Checker) PutAt(p, of any) { c.marks[p] = mark{c.Place(of), true} }

// Refused reports whether the field that p points to was none of its choices.
func (c *Checker) Refused(p any) bool { return c.refused[c.Place(p)] }

// Undecoded reports whether some value did not have the right form.
func (c *Checker) Undecoded() bool { return len(c.broken) > 0 }

// Place returns the place of at: a pos, or a pointer to a decoded field.
func (c *Checker) Place(at any) yamlnode.Pos {
	p, ok := at.(yamlnode.Pos)
	if !ok {
		p = c.marks[at].at
	}
	return yamlnode.Pos{Line: max(p.Line, 1), Col: max(p.Col, 1)}
}

// Wrong reports a problem at a pos, or at a decoded field given by its address.
func (c *Checker) Wrong(at any, what, cure string) {
	if p := c.Place(at); !c.broken[p] {
		c.add(&c.Problems, p, what, cure)
	}
}

// CheckRange checks a number that is in the file.
func (c *Checker) CheckRange(v *int, name string, low, high int) {
	if c.IsSet(v) {
		c.CheckOptionalRange(v, v, name, low, high)
	}
}

// CheckOptionalRange checks a number that may be absent.
func (c *Checker) CheckOptionalRange(v *int, at any, name string, low, high int) {
	if v != nil && (*v < low || *v > high) {
		c.Wrong(at, fmt.Sprintf("%s is %d", name, *v), fmt.Sprintf("write a number from %d to %d", low, high))
	}
}

// undecodable reports a value that does not have the right form.
func (c *Checker) undecodable(at yamlnode.Pos, what, cure string) {
	c.add(&c.Problems, c.Place(at), what, cure)
	c.broken[c.Place(at)] = true
}

// Warn reports what is allowed, but probably not intended.
func (c *Checker) Warn(at any, what, cure string) { c.add(&c.Warnings, c.Place(at), what, cure) }

func (c *Checker) add(to *spec.Problems, at yamlnode.Pos, what, cure string) {
	p := spec.Problem{File: c.File, Line: at.Line, Column: at.Col, Path: c.path(at), What: printable.Shorten(printable.Text(what)),
		Cure: printable.Shorten(printable.Text(cure))}
	if !c.seen[p] {
		c.seen[p] = true
		*to = append(*to, p)
	}
}

// path is the path of a place, empty in a file.
func (c *Checker) path(at yamlnode.Pos) string {
	if c.paths == nil {
		return ""
	}
	return c.paths[at.Line-1]
}

// Line names another place, for "already used in line 12".
func (c *Checker) Line(at any) string {
	return cmp.Or(c.path(c.Place(at)), fmt.Sprintf("line %d", c.Place(at).Line))
}

// Location is a place with its file, for errors of later.
func (c *Checker) Location(at any) string {
	p := c.Place(at)
	return cmp.Or(c.path(p), fmt.Sprintf("%s:%d:%d", c.File, p.Line, p.Col))
}

// Err returns all problems in the order of the file, or nil.
func (c *Checker) Err() error {
	if len(c.Problems) == 0 {
		return nil
	}
	said := slices.DeleteFunc(c.Problems, func(p spec.Problem) bool {
		key, missing := strings.CutPrefix(p.Cure, "write ")
		key, _, named := strings.Cut(key, ":")
		return missing && named && c.meant[key]
	})
	return SortProblems(said)
}

func SortProblems(p spec.Problems) spec.Problems {
	slices.SortStableFunc(p, func(a, b spec.Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
	})
	for i := range p {
		if p[i].Path != "" {
			p[i].Line, p[i].Column = 0, 0
		}
	}
	return p
}

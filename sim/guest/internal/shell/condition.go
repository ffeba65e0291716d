package shell

import (
	"context"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// runTest is test and [.
func runTest(_ context.Context, p *machine.Proc) int {
	args := p.Args[1:]
	if p.Name() == "[" {
		if len(args) == 0 || args[len(args)-1] != "]" {
			fmt.Fprintf(p.Stderr, "%s: [: missing ]\n", p.Shell)
			return 2
		}
		args = args[:len(args)-1]
	}
	t := &tester{p: p, args: args}
	ok := len(args) > 0 && t.or()
	if t.err != "" || t.pos < len(args) {
		if t.err == "" {
			t.err = "unexpected operator"
		}
		fmt.Fprintf(p.Stderr, "%s: %s: %s\n", p.Shell, p.Name(), t.err)
		return 2
	}
	if ok {
		return 0
	}
	return 1
}

// tester evaluates test's little language.
type tester struct {
	p    *machine.Proc
	args []string
	pos  int
	err  string
}

func (t *tester) remaining() int { return len(t.args) - t.pos }

func (t *tester) or() bool {
	ok := t.and()
	for t.remaining() > 1 && t.args[t.pos] == "-o" {
		t.pos++
		right := t.and()
		ok = ok || right
	}
	return ok
}

func (t *tester) and() bool {
	ok := t.not()
	for t.remaining() > 1 && t.args[t.pos] == "-a" {
		t.pos++
		right := t.not()
		ok = ok && right
	}
	return ok
}

func (t *tester) not() bool {
	if t.remaining() > 1 && t.args[t.pos] == "!" {
		t.pos++
		return !t.not()
	}
	return t.primary()
}

func (t *tester) primary() bool {
	if t.remaining() == 0 {
		t.err = "argument expected"
		return false
	}
	a := t.args[t.pos]
	if t.remaining() >= 3 {
		if ok, known := t.binary(a, t.args[t.pos+1], t.args[t.pos+2]); known {
			t.pos += 3
			return ok
		}
	}
	if a == "(" && t.remaining() > 2 {
		t.pos++
		ok := t.or()
		if t.remaining() == 0 || t.args[t.pos] != ")" {
			t.err = "closing paren expected"
			return false
		}
		t.pos++
		return ok
	}
	if t.remaining() >= 2 && len(a) == 2 && a[0] == '-' {
		if ok, known := t.unary(a[1], t.args[t.pos+1]); known {
			t.pos += 2
			return ok
		}
	}
	t.pos++
	return a != ""
}

func (t *tester) binary(a, op, b string) (ok, known bool) {
	switch op {
	case "=", "==":
		return a == b, true
	case "!=":
		return a != b, true
	case "<":
		return a < b, true
	case ">":
		return a > b, true
	case "-nt", "-ot":
		x, errX := t.p.FS.Stat(t.p.Abs(a))
		y, errY := t.p.FS.Stat(t.p.Abs(b))
		if op == "-ot" {
			x, y, errX, errY = y, x, errY, errX
		}
		return errX == nil && (errY != nil || x.ModTime().After(y.ModTime())), true
	}
	compare := map[string]func(x, y int64) bool{
		"-eq": func(x, y int64) bool { return x == y }, "-ne": func(x, y int64) bool { return x != y },
		"-lt": func(x, y int64) bool { return x < y }, "-le": func(x, y int64) bool { return x <= y },
		"-gt": func(x, y int64) bool { return x > y }, "-ge": func(x, y int64) bool { return x >= y },
	}[op]
	if compare == nil {
		return false, false
	}
	var n [2]int64
	for i, s := range []string{a, b} {
		v, err := strconv.ParseInt(strings.TrimSpace(s), 10, 64)
		if err != nil {
			t.err = "Illegal number: " + s
			return false, true
		}
		n[i] = v
	}
	return compare(n[0], n[1]), true
}

func (t *tester) unary(op byte, a string) (ok, known bool) {
	switch op {
	case 'n':
		return a != "", true
	case 'z':
		return a == "", true
	case 't':
		return false, true
	case 'L', 'h':
		e, err := t.p.FS.Lstat(t.p.Abs(a))
		return err == nil && e.Mode()&fs.ModeSymlink != 0, true
	}
	if !strings.ContainsRune("edfsrwxbcpS", rune(op)) {
		return false, false
	}
	e, err := t.p.FS.Stat(t.p.Abs(a))
	if err != nil {
		return false, true
	}
	switch op {
	case 'd':
		return e.IsDir(), true
	case 'f':
		return e.Mode().IsRegular(), true
	case 's':
		return e.IsDir() || e.Size() > 0, true
	case 'r':
		return t.p.FS.May(e, 4), true
	case 'w':
		return t.p.FS.May(e, 2), true
	case 'x':
		return t.p.FS.May(e, 1) && e.Mode().Perm()&0o111 != 0, true
	case 'b':
		return e.Mode()&fs.ModeDevice != 0 && e.Mode()&fs.ModeCharDevice == 0, true
	case 'c':
		return e.Mode()&fs.ModeCharDevice != 0, true
	case 'p', 'S':
		return false, true
	}
	return true, true
}

package model

import (
	"bytes"
	"encoding"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
)

// ModelError is one thing that is wrong in a model's file.
type ModelError struct {
	File         string
	Line, Column int // from 1
	What         string
}

// Error returns file:line:column: what is wrong.
func (e ModelError) Error() string {
	return fmt.Sprintf("%s:%d:%d: %s", e.File, e.Line, e.Column, e.What)
}

// ModelErrors is everything that is wrong in a model's file, in its order.
type ModelErrors []ModelError

// Error returns a line for each.
func (e ModelErrors) Error() string {
	lines := make([]string, len(e))
	for i, one := range e {
		lines[i] = one.Error()
	}
	return strings.Join(lines, "\n")
}

// ParseModel reads a model from YAML and checks it: keys that it does not know,
// values of another form, VMs on hosts that are not there. The filename is for
// messages alone. When anything is wrong the error is [ModelErrors].
func ParseModel(filename string, data []byte) (Model, error) {
	r := &modelReader{file: filename, places: map[string]modelPlace{}, anchors: map[string]ast.Node{}}
	var m Model
	if root := r.parse(data); root != nil {
		r.read(root, reflect.ValueOf(&m).Elem(), "", 0)
		r.check(m)
	}
	if len(r.wrong) > 0 {
		slices.SortStableFunc(r.wrong, func(a, b ModelError) int {
			if a.Line != b.Line {
				return a.Line - b.Line
			}
			return a.Column - b.Column
		})
		return Model{}, slices.Compact(r.wrong)
	}
	return m, nil
}

type modelPlace struct{ line, column int }

// modelReader turns YAML into a Model, remembers where each value stands, and
// collects what is wrong.
type modelReader struct {
	file    string
	places  map[string]modelPlace // by path: .hosts[0].pci[1].address
	anchors map[string]ast.Node
	nodes   int // visited: aliases of aliases must not go on forever
	wrong   ModelErrors
}

func (r *modelReader) wrongAt(at modelPlace, format string, args ...any) {
	r.wrong = append(r.wrong, ModelError{r.file, max(1, at.line), max(1, at.column), fmt.Sprintf(format, args...)})
}

func placeOf(n ast.Node) modelPlace {
	if t := n.GetToken(); t != nil && t.Position != nil {
		return modelPlace{t.Position.Line, t.Position.Column}
	}
	return modelPlace{}
}

// Limits of a model's file: the parser keeps the whole path with each value, so that nesting
// costs far more than length.
const (
	maxModelBytes  = 4 << 20
	maxModelIndent = 100 // blanks at a line's begin
	maxModelOpen   = 500 // brackets that are open; texts may have some
)

// tooMuch returns the line that is nested too deeply, and says why; "" if none is.
func tooMuch(data []byte) (line int, why string) {
	if len(data) > maxModelBytes {
		return 1, fmt.Sprintf("%d KiB of YAML", len(data)>>10)
	}
	open := 0
	for text := range bytes.Lines(data) {
		line++
		inner := bytes.TrimLeft(text, " -?\t")
		open += bytes.Count(text, []byte("[")) + bytes.Count(text, []byte("{")) - bytes.Count(text, []byte("]")) - bytes.Count(text, []byte("}"))
		if len(text)-len(inner) > maxModelIndent || open > maxModelOpen {
			return line, "nesting this deep"
		}
	}
	return 0, ""
}

// parse returns the document's root, or nil with the reason among what is wrong.
func (r *modelReader) parse(data []byte) (root ast.Node) {
	if line, why := tooMuch(data); why != "" {
		r.wrongAt(modelPlace{line, 1}, "this is more than a model can need: %s", why)
		return nil
	}
	defer func() {
		if recover() != nil {
			root = nil
			r.wrongAt(modelPlace{}, "this is not YAML: the parser gave up on it")
		}
	}()
	file, err := parser.ParseBytes(data, 0)
	if err != nil {
		at, what := modelPlace{}, err.Error()
		if syntax, ok := errors.AsType[yaml.Error](err); ok {
			what = syntax.GetMessage() // without the lines that it quotes: a secret may be in them
			if t := syntax.GetToken(); t != nil && t.Position != nil {
				at = modelPlace{t.Position.Line, t.Position.Column}
			}
		}
		r.wrongAt(at, "this is not YAML: %s", what)
		return nil
	}
	for _, doc := range file.Docs {
		switch {
		case doc.Body == nil || doc.Body.Type() == ast.CommentType:
		case root != nil:
			r.wrongAt(placeOf(doc.Body), "a second document begins here: keep one in a file")
			return nil
		default:
			root = doc.Body
		}
	}
	if root == nil {
		r.wrongAt(modelPlace{}, "the file is empty: a model begins with hosts:")
	}
	return root
}

// Limits of what a file may unfold to.
const (
	maxModelNodes = 1 << 20
	maxModelDepth = 100
)

// read fills v from a node.
func (r *modelReader) read(n ast.Node, v reflect.Value, path string, depth int) {
	if n == nil {
		return
	}
	if _, there := r.places[path]; !there {
		r.places[path] = placeOf(n)
	}
	if r.nodes++; r.nodes > maxModelNodes || depth > maxModelDepth {
		if r.nodes != maxModelNodes+2 { // said once
			r.nodes = maxModelNodes + 1
			r.wrongAt(placeOf(n), "this unfolds to more than a model can need")
		}
		return
	}
	switch n := n.(type) {
	case *ast.AnchorNode:
		r.read(n.Value, v, path, depth+1)
		r.anchors[n.Name.GetToken().Value] = n.Value
		return
	case *ast.AliasNode:
		to, known := r.anchors[n.Value.GetToken().Value]
		if !known {
			r.wrongAt(placeOf(n), "no anchor &%s above this", n.Value.GetToken().Value)
			return
		}
		r.read(to, v, path, depth+1)
		return
	case *ast.NullNode:
		return
	}
	if text, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		r.scalar(n, func(s string) error { return text.UnmarshalText([]byte(s)) })
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		r.readStruct(n, v, path, depth)
	case reflect.Slice:
		r.readSlice(n, v, path, depth)
	case reflect.Map:
		r.readMap(n, v, path, depth)
	default:
		r.scalar(n, func(s string) error { return setScalar(v, s) })
	}
}

// setScalar sets a text, number, truth or duration.
func setScalar(v reflect.Value, s string) error {
	if v.Type() == reflect.TypeFor[time.Duration]() {
		d, err := time.ParseDuration(s)
		if err != nil {
			return fmt.Errorf("%q is not a duration: write 90s or -2m", s)
		}
		v.SetInt(int64(d))
		return nil
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Bool:
		b, err := strconv.ParseBool(s)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", s)
		}
		v.SetBool(b)
	default:
		i, err := strconv.ParseInt(s, 10, 64)
		if err != nil || v.OverflowInt(i) {
			return fmt.Errorf("%q is not a whole number", s)
		}
		v.SetInt(i)
	}
	return nil
}

// scalar hands on a plain value as it is written: 8.4 and 0000:41:00.0 are text.
func (r *modelReader) scalar(n ast.Node, set func(string) error) {
	var text string
	switch n := n.(type) {
	case *ast.StringNode:
		text = n.Value
	case *ast.LiteralNode:
		text = n.Value.Value
	case *ast.BoolNode, *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		text = n.GetToken().Value
	default:
		r.wrongAt(placeOf(n), "a plain value belongs here")
		return
	}
	if err := set(text); err != nil {
		r.wrongAt(placeOf(n), "%s", err)
	}
}

// pairs returns a mapping's keys and values, or nil for what is none.
func (r *modelReader) pairs(n ast.Node) []*ast.MappingValueNode {
	switch n := n.(type) {
	case *ast.MappingNode:
		return n.Values
	case *ast.MappingValueNode:
		return []*ast.MappingValueNode{n}
	}
	r.wrongAt(placeOf(n), "keys and values belong here")
	return nil
}

func (r *modelReader) readStruct(n ast.Node, v reflect.Value, path string, depth int) {
	fields, names := map[string]reflect.Value{}, []string{}
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("yaml"), ",")
		fields[name] = v.Field(i)
		names = append(names, name)
	}
	for _, pair := range r.pairs(n) {
		key := pair.Key.GetToken().Value
		f, known := fields[key]
		if !known {
			r.wrongAt(placeOf(pair.Key), "no key %q here: there are %s", key, strings.Join(names, ", "))
			continue
		}
		r.places[path+"."+key] = placeOf(pair.Key)
		r.read(pair.Value, f, path+"."+key, depth+1)
	}
}

func (r *modelReader) readSlice(n ast.Node, v reflect.Value, path string, depth int) {
	seq, ok := n.(*ast.SequenceNode)
	if !ok {
		r.wrongAt(placeOf(n), "a list belongs here")
		return
	}
	v.Set(reflect.MakeSlice(v.Type(), len(seq.Values), len(seq.Values)))
	for i, item := range seq.Values {
		r.read(item, v.Index(i), fmt.Sprintf("%s[%d]", path, i), depth+1)
	}
}

// readMap reads further keys of a configuration file, whose truths are 1 and 0.
func (r *modelReader) readMap(n ast.Node, v reflect.Value, path string, depth int) {
	v.Set(reflect.MakeMap(v.Type()))
	for _, pair := range r.pairs(n) {
		key, value := pair.Key.GetToken().Value, reflect.New(v.Type().Elem()).Elem()
		r.places[path+"."+key] = placeOf(pair.Key)
		if b, ok := pair.Value.(*ast.BoolNode); ok {
			value.SetString(map[bool]string{true: "1", false: "0"}[b.Value])
		} else {
			r.read(pair.Value, value, path+"."+key, depth+1)
		}
		v.SetMapIndex(reflect.ValueOf(key), value)
	}
}

package targets

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"slices"
	"strings"
)

// target is a Mage target, as its source describes it.
type target struct {
	name  string
	doc   string
	flags []option
	words int    // arguments after its name; ours have none
	alias string // the target of an alias, as the magefile writes it
}

// option is a flag of a target: a parameter that is a pointer.
type option struct {
	name string // in lower case, because Mage ignores case
	kind string // string, int, float64, bool or time.Duration
	help string // the comment of the parameter
}

// kinds are the types of parameters that Mage supports (its parse.argTypes).
func kinds() []string { return []string{"string", "int", "float64", "bool", "time.Duration"} }

// targets returns all targets, by their names in lower case.
func targets(files fs.FS) (map[string]target, error) {
	parsed, err := parse(files)
	if err != nil {
		return nil, err
	}
	out := map[string]target{}
	for _, file := range parsed {
		comments := ast.NewCommentMap(file.set, file.File, file.Comments)
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !f.Name.IsExported() {
				continue
			}
			if t, ok := targetOf(f, comments); ok {
				out[strings.ToLower(t.name)] = t
			}
		}
	}
	for alias, of := range aliases(parsed) {
		out[strings.ToLower(alias)] = target{name: alias, alias: of}
	}
	return out, nil
}

type parsedFile struct {
	*ast.File
	set *token.FileSet
}

func parse(files fs.FS) ([]parsedFile, error) {
	names, err := fs.Glob(files, "*.go")
	if err != nil {
		return nil, err
	}
	var out []parsedFile
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution|parser.ParseComments)
		if err != nil {
			return nil, fmt.Errorf("the targets: %w", err)
		}
		out = append(out, parsedFile{file, set})
	}
	return out, nil
}

// targetOf returns the target of a function, or of a namespace's method, if Mage treats it as
// one.
func targetOf(f *ast.FuncDecl, comments ast.CommentMap) (t target, ok bool) {
	t = target{name: lower(f.Name.Name), doc: strings.Join(strings.Fields(f.Doc.Text()), " ")}
	t.doc = strings.TrimPrefix(t.doc, f.Name.Name+" ")
	if f.Recv != nil {
		space, ok := f.Recv.List[0].Type.(*ast.Ident)
		if !ok || !space.IsExported() {
			return t, false
		}
		t.name = lower(space.Name) + ":" + t.name
	}
	for _, p := range f.Type.Params.List {
		kind := types.ExprString(p.Type)
		of, pointer := strings.CutPrefix(kind, "*")
		switch {
		case kind == "context.Context":
		case !slices.Contains(kinds(), of):
			return t, false
		case !pointer:
			t.words += max(1, len(p.Names))
		default:
			for _, n := range p.Names {
				t.flags = append(t.flags, option{name: strings.ToLower(n.Name), kind: of, help: helpOf(comments[p])})
			}
		}
	}
	return t, true
}

// helpOf returns Mage's help for a parameter: the first comment beside it.
func helpOf(groups []*ast.CommentGroup) string {
	if len(groups) == 0 {
		return ""
	}
	return strings.Join(strings.Fields(groups[0].Text()), " ")
}

// aliases returns the entries of Mage's variable Aliases, in lower case and with colons.
func aliases(files []parsedFile) map[string]string {
	out := map[string]string{}
	for _, file := range files {
		ast.Inspect(file.File, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok || len(v.Names) != 1 || v.Names[0].Name != "Aliases" || len(v.Values) != 1 {
				return true
			}
			if list, ok := v.Values[0].(*ast.CompositeLit); ok {
				for _, e := range list.Elts {
					if pair, ok := e.(*ast.KeyValueExpr); ok {
						of := strings.ReplaceAll(types.ExprString(pair.Value), ".", ":")
						out[strings.Trim(types.ExprString(pair.Key), "\"`")] = strings.ToLower(of)
					}
				}
			}
			return false
		})
	}
	return out
}

// lower returns a name as Mage lists it: GPU is gpu, and HubOpen would be hubOpen.
func lower(name string) string {
	if name == strings.ToUpper(name) {
		return strings.ToLower(name)
	}
	return strings.ToLower(name[:1]) + name[1:]
}

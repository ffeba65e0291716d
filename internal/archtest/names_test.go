package archtest_test

import (
	"go/ast"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/stretchr/testify/assert"
)

// prepositions and the like say nothing alone: of what, for whom?
const prepositions = " of by on off in at to into from with without within under over between before after above below beside through " +
	"across against along among around behind beyond until since till past outside inside away apart itself nothing again where when why how "

// irregular participles; the others end with -ed.
const irregular = " kept held seen said left lost taken made gone found known shown written told born begun drawn driven given grown hidden " +
	"led met sent understood built chosen cut bound "

// notParticiples end with -ed all the same.
const notParticiples = " embed need feed seed speed exceed proceed bed shed "

// idioms are bare words that a Go engineer knows: of the standard library, or of a grammar.
const idioms = " converge.Until run.Until " +
	"yamlnode.Node.With yamlnode.Node.Without wire.Properties.With sops.branch.without " +
	"python.parser.with python.parser.decorated python.parser.named python.parser.negated python.parser.dotted python.scanner.nested " +
	"reserved.reserved "

// TestNamesAreNouns: nothing of the product or the simulator is called by a bare preposition or participle, except what answers yes or
// no, and values of a set, such as states: "removed" may be a list, a step, or a question, and a reader has to open it to know.
func TestNamesAreNouns(t *testing.T) {
	used := map[string]bool{}
	check := func(name, kind, at string) {
		if !isBare(name[strings.LastIndex(name, ".")+1:]) {
			return
		}
		if strings.Contains(idioms, " "+name+" ") {
			used[name] = true
			return
		}
		assert.Fail(t, "bare word", "%s: %s %s: a bare preposition or participle: say what it is (removedNodes), or what it does (removeNodes)", at, kind, name)
	}
	for _, s := range sources(t) {
		for _, file := range s.trees {
			path := s.files.Position(file.Pos()).Filename
			base := strings.TrimSuffix(filepath.Base(path), ".go")
			check(file.Name.Name+"."+base, "the file", path)
			for _, d := range file.Decls {
				checkDecl(d, func(name, kind string) { check(file.Name.Name+"."+name, kind, s.files.Position(d.Pos()).String()) })
			}
		}
	}
	for name := range strings.FieldsSeq(idioms) {
		assert.True(t, used[name], "%s: no such name: remove it from the idioms", name)
	}
}

// checkDecl checks the names of a declaration.
func checkDecl(d ast.Decl, check func(name, kind string)) {
	switch d := d.(type) {
	case *ast.FuncDecl:
		if !isQuestion(d.Type) {
			check(receiver(d)+d.Name.Name, "the function")
		}
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if s, ok := s.(*ast.TypeSpec); ok {
				check(s.Name.Name, "the type")
			}
		}
	}
}

// isBare reports whether a name is one word, and a preposition or participle.
func isBare(name string) bool {
	if name == "" || strings.ContainsFunc(name[1:], unicode.IsUpper) || strings.Contains(name, "_") {
		return false
	}
	word := strings.ToLower(name)
	listed := func(list string) bool { return strings.Contains(list, " "+word+" ") }
	return listed(prepositions) || listed(irregular) || strings.HasSuffix(word, "ed") && len(word) > 4 && !listed(notParticiples)
}

// isQuestion reports whether a bool is among the results of a function.
func isQuestion(f *ast.FuncType) bool {
	return f.Results != nil && slices.ContainsFunc(f.Results.List, func(r *ast.Field) bool {
		id, ok := r.Type.(*ast.Ident)
		return ok && id.Name == "bool"
	})
}

package importer

import (
	"cmp"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/zclconf/go-cty/cty"
)

// module is what the files of a root module say, without running it.
type module struct {
	variables []field // values of tfvars, else defaults
	valueless []field // variables without a value
	locals    []field
	machines  []*hclsyntax.Block // resources that are VMs of Proxmox
	files     map[*hclsyntax.Block]string
	context   *hcl.EvalContext
}

// parseHCL reads a file of HCL. The error has no line of it.
func parseHCL(name string, data []byte) (*hclsyntax.Body, error) {
	f, diags := hclsyntax.ParseConfig(data, name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, unreadable(name, diags)
	}
	return f.Body.(*hclsyntax.Body), nil
}

func unreadable(name string, diags hcl.Diagnostics) error {
	d := diags.Errs()[0]
	line := 1
	if diag, ok := d.(*hcl.Diagnostic); ok && diag.Subject != nil { //nolint:errorlint // hcl.Diagnostics.Errs returns these
		return &ReadError{Place: place{name, diag.Subject.Start.Line}.String(), What: "no HCL: " + diag.Summary}
	}
	return &ReadError{Place: place{name, line}.String(), What: "no HCL"}
}

// attributes are a body's attributes in the order of the file.
func attributes(b *hclsyntax.Body) []*hclsyntax.Attribute {
	var out []*hclsyntax.Attribute
	for _, a := range b.Attributes {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *hclsyntax.Attribute) int {
		return cmp.Compare(a.NameRange.Start.Byte, b.NameRange.Start.Byte)
	})
	return out
}

// tfvars are the values of a file of variables.
func tfvars(name string, b *hclsyntax.Body) []field {
	var out []field
	for _, a := range attributes(b) {
		out = append(out, field{a.Name, literal(name, a.Expr, nil)})
	}
	return out
}

// read adds a .tf file.
func (m *module) read(name string, b *hclsyntax.Body) {
	for _, block := range b.Blocks {
		switch {
		case block.Type == "variable" && len(block.Labels) == 1:
			if d, ok := block.Body.Attributes["default"]; ok {
				m.variables = append(m.variables, field{block.Labels[0], literal(name, d.Expr, nil)})
				continue
			}
			m.valueless = append(m.valueless, field{block.Labels[0], value{at: place{name, block.TypeRange.Start.Line}}})
		case block.Type == "locals":
			for _, a := range attributes(block.Body) {
				m.locals = append(m.locals, field{a.Name, literal(name, a.Expr, nil)})
			}
		case block.Type == "resource" && len(block.Labels) == 2 && (block.Labels[0] == "proxmox_vm_qemu" || block.Labels[0] == "proxmox_virtual_environment_vm"):
			m.machines = append(m.machines, block)
			if m.files == nil {
				m.files = map[*hclsyntax.Block]string{}
			}
			m.files[block] = name
		}
	}
}

// assign gives variables the values of a file of variables, which replaces those of earlier ones.
func (m *module) assign(values []field) {
	for _, v := range values {
		same := func(f field) bool { return f.name == v.name }
		m.valueless = slices.DeleteFunc(m.valueless, same)
		m.variables = append(slices.DeleteFunc(m.variables, same), v)
	}
}

// evaluate prepares the values that expressions of resources name.
func (m *module) evaluate() {
	names := map[string]cty.Value{}
	for _, v := range m.variables {
		names[v.name] = v.cty()
	}
	locals := map[string]cty.Value{}
	for _, v := range m.locals {
		locals[v.name] = v.cty()
	}
	m.context = &hcl.EvalContext{Variables: map[string]cty.Value{"var": cty.ObjectVal(names), "local": cty.ObjectVal(locals)}}
}

// literal is the value of an expression. Objects and lists keep the lines of their parts.
func literal(file string, e hclsyntax.Expression, scope *hcl.EvalContext) value {
	at := place{file, e.Range().Start.Line}
	switch e := e.(type) {
	case *hclsyntax.TupleConsExpr:
		v := value{kind: list, at: at}
		for _, item := range e.Exprs {
			v.items = append(v.items, literal(file, item, scope))
		}
		return v
	case *hclsyntax.ObjectConsExpr:
		v := value{kind: object, at: at}
		for _, item := range e.Items {
			key, diags := item.KeyExpr.Value(scope)
			if diags.HasErrors() || key.IsNull() || !key.IsWhollyKnown() || key.Type() != cty.String {
				return value{kind: computed, at: at, why: "the name of a key"}
			}
			v.fields = append(v.fields, field{key.AsString(), literal(file, item.ValueExpr, scope)})
		}
		return v
	}
	got, diags := hcl.Expression(e).Value(scope)
	if diags.HasErrors() {
		return value{kind: computed, at: at, why: needs(e)}
	}
	return fromCty(got, at)
}

// needs says what an expression is computed from.
func needs(e hclsyntax.Expression) string {
	var names []string
	for _, v := range e.Variables() {
		var parts []string
		for _, step := range v {
			switch step := step.(type) {
			case hcl.TraverseRoot:
				parts = append(parts, step.Name)
			case hcl.TraverseAttr:
				parts = append(parts, step.Name)
			}
		}
		names = append(names, strings.Join(parts, "."))
	}
	if len(names) == 0 {
		return "a function"
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// fromCty makes a value of one that was evaluated.
func fromCty(v cty.Value, at place) value {
	v, _ = v.UnmarkDeep()
	switch t := v.Type(); {
	case !v.IsKnown() || t == cty.DynamicPseudoType && !v.IsNull():
		return value{kind: computed, at: at}
	case v.IsNull():
		return value{at: at}
	case t == cty.String:
		return value{kind: text, text: v.AsString(), at: at}
	case t == cty.Bool:
		return value{kind: boolean, text: map[bool]string{true: "true", false: "false"}[v.True()], at: at}
	case t == cty.Number:
		return value{kind: number, text: v.AsBigFloat().Text('f', -1), at: at}
	case t.IsListType() || t.IsTupleType() || t.IsSetType():
		out := value{kind: list, at: at}
		for it := v.ElementIterator(); it.Next(); {
			_, item := it.Element()
			out.items = append(out.items, fromCty(item, at))
		}
		return out
	case t.IsObjectType() || t.IsMapType():
		out := value{kind: object, at: at}
		for it := v.ElementIterator(); it.Next(); {
			key, item := it.Element()
			out.fields = append(out.fields, field{key.AsString(), fromCty(item, at)})
		}
		return out
	}
	return value{kind: computed, at: at}
}

// cty is the value for expressions.
func (v value) cty() cty.Value {
	switch v.kind {
	case text:
		return cty.StringVal(v.text)
	case boolean:
		return cty.BoolVal(v.text == "true")
	case number:
		if n, err := cty.ParseNumberVal(v.text); err == nil {
			return n
		}
	case list:
		var items []cty.Value
		for _, item := range v.items {
			items = append(items, item.cty())
		}
		return cty.TupleVal(items)
	case object:
		fields := map[string]cty.Value{}
		for _, f := range v.fields {
			fields[f.name] = f.cty()
		}
		return cty.ObjectVal(fields)
	case null:
		return cty.NullVal(cty.DynamicPseudoType)
	}
	return cty.DynamicVal
}

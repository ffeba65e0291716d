package fleet

import (
	"bytes"
	"embed"
	"strings"
	"text/template"
)

//go:embed readme.md.tmpl
var readmeText embed.FS

type row struct{ Name, What, Version, Namespace, Needs string }

// readme writes the page that describes the folder and the owners of its files.
func readme(bundles []Bundle, o Options) []byte {
	var rows []row
	var secrets []string
	for _, b := range bundles {
		r := row{Name: b.Name, What: b.title(), Namespace: b.Namespace, Needs: strings.Join(b.DependsOn, ", ")}
		if b.Release != nil {
			r.What, r.Version = "Chart "+b.Release.Chart, b.Release.Version
		}
		rows = append(rows, r)
		for _, s := range b.Secrets {
			secrets = append(secrets, s.Namespace+"/"+s.Name+" (for "+b.Part+")")
		}
	}
	var out bytes.Buffer
	t := template.Must(template.ParseFS(readmeText, "readme.md.tmpl"))
	if err := t.Execute(&out, map[string]any{"Options": o, "Bundles": rows, "Secrets": secrets, "List": ListFile, "Tool": o.Tool.Title(), "File": o.Tool.BundleFile(), "Flux": o.Tool == ToolFlux, "Argo": o.Tool == ToolArgo}); err != nil {
		panic(err) // strings only
	}
	return out.Bytes()
}

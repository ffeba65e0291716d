package main

import (
	"fmt"
	"io"
	"io/fs"
	"strings"
	"text/template"
)

// completion writes the script with which a shell completes targets and their flags. All
// shells share one sh program that asks Mage for them.
func completion(out io.Writer, shell string) error {
	quote := quoted
	switch shell {
	case "bash", "zsh":
	case "fish":
		quote = quotedForFish
	default:
		return fmt.Errorf("homelab completion %s: write bash, zsh or fish", shell)
	}
	words, err := fs.ReadFile(files, "files/complete.sh")
	if err != nil {
		return err
	}
	script, err := template.ParseFS(files, "files/complete."+shell)
	if err != nil {
		return err
	}
	return script.Execute(out, struct{ Words string }{quote(string(words))})
}

// quoted is a text as one word of bash, zsh or sh.
func quoted(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// quotedForFish is a text as one word of fish, where a backslash escapes within quotes.
func quotedForFish(text string) string {
	return "'" + strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(text) + "'"
}

package main

import (
	"bytes"
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"text/template"

	"github.com/cps-gpu/homelab/internal/keep"
)

const (
	module = "github.com/cps-gpu/homelab"
	mage   = module + "/cmd/mage"
)

//go:embed files
var files embed.FS

// version is the version of homelab for a folder: one that go can fetch, or a checkout.
type version struct {
	version  string
	checkout string
}

// ownVersion is the version of this program. In a checkout there is none, and the checkout's
// source is used.
func ownVersion(ctx context.Context) (version, error) {
	info, ok := debug.ReadBuildInfo()
	if ok && info.Main.Path == module && info.Main.Version != "" && info.Main.Version != "(devel)" && !strings.Contains(info.Main.Version, "+dirty") {
		return version{version: info.Main.Version}, nil
	}
	out, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Path}}\n{{.Dir}}").Output()
	path, dir, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	if err != nil || path != module {
		return version{}, fmt.Errorf("this program does not know which version it is: run it as go run %s/cmd/homelab@latest", module)
	}
	return version{version: "v0.0.0", checkout: dir}, nil
}

// newFolder creates the whole folder for a cluster, or nothing.
func newFolder(ctx context.Context, dir string, from version) (err error) {
	dir = filepath.Clean(dir)
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		if err != nil {
			return err
		}
		return fmt.Errorf("%s exists already: name a new folder; nothing was done", dir)
	}
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return err
	}
	half, err := os.MkdirTemp(filepath.Dir(dir), "."+filepath.Base(dir)+"-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(half))
		}
	}()
	if err := writeFiles(half, filepath.Base(dir), from); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "fetching %s %s and what it needs\n", module, from.version)
	// Writes go.sum, and adds the indirect requirements to go.mod.
	if err := goCommand(ctx, half, "list", "-mod=mod", "-deps", "-f", "", module+"/magefiles/targets", mage, "github.com/magefile/mage"); err != nil {
		return err
	}
	if err := os.Chmod(half, 0o755); err != nil {
		return err
	}
	return os.Rename(half, dir)
}

// writeFiles writes the files of a folder.
func writeFiles(dir, name string, from version) error {
	release := regexp.MustCompile(`^go\d+\.\d+`).FindString(runtime.Version()) // a colleague may have an older Go
	mod := fmt.Sprintf("module %s\n\ngo %s.0\n\ntool %s\n\nrequire %s %s\n", moduleName(name), strings.TrimPrefix(release, "go"), mage, module, from.version)
	if from.checkout != "" {
		mod += fmt.Sprintf("\nreplace %s => %s\n", module, strconv.Quote(from.checkout))
	}
	texts := map[string]string{"go.mod": mod}
	for file, source := range map[string]string{"magefile.go": "magefile.go.txt", ".gitignore": "gitignore.txt", "README.md": "README.md.txt"} {
		text, err := template.ParseFS(files, "files/"+source)
		if err != nil {
			return err
		}
		var out bytes.Buffer
		if err := text.Execute(&out, struct{ Name, Module string }{name, module}); err != nil {
			return err
		}
		texts[file] = out.String()
	}
	for file, text := range texts {
		if err := keep.WriteFile(filepath.Join(dir, file), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// moduleName returns a module path for a folder of any name.
func moduleName(name string) string {
	plain := strings.Trim(regexp.MustCompile(`[^a-z0-9._-]+`).ReplaceAllString(strings.ToLower(name), "-"), "-.")
	if plain == "" {
		return "cluster"
	}
	return plain
}

// goCommand runs go in a folder. If it fails, the error has its output.
func goCommand(ctx context.Context, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	var said bytes.Buffer
	cmd.Stderr = &said
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return errors.New("interrupted; nothing was made")
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf("there is no go command: install Go 1.26: %w", err)
	case err != nil:
		return fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

package labctl

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/cps-gpu/homelab/cluster/converge/progress"
)

// module is the module path of the lab.
const module = "github.com/cps-gpu/homelab"

// source is the folder in which the lab is built: its module, and, if go downloaded it, a
// go.mod that names the downloaded library instead of the folder above.
type source struct {
	dir     string
	modfile string // empty: the lab's own
}

// find finds a clone of the repository, at o.Source or upwards from the current folder;
// otherwise the source of the version that the current module requires.
func (o Options) find(ctx context.Context) (source, error) {
	dir, err := filepath.Abs(o.Source)
	if err != nil {
		return source{}, fmt.Errorf("the lab's source: %w", err)
	}
	for at := dir; ; at = filepath.Dir(at) {
		data, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && bytes.HasPrefix(data, []byte("module "+module+"\n")) {
			return source{dir: filepath.Join(at, "sim", "lab", o.program().module)}, nil
		}
		if at == filepath.Dir(at) {
			return o.required(ctx, dir)
		}
	}
}

// goModule is go's description of a module.
type goModule struct {
	Version string
	Dir     string
	Replace *goModule
	Error   any
}

// required is the source of the version that the module in dir requires. Go's downloads
// exclude nested modules, so the lab is fetched separately.
func (o Options) required(ctx context.Context, dir string) (source, error) {
	var lib goModule
	if err := asked(ctx, &lib, dir, "list", "-m", "-mod=readonly", "-json", module); err != nil {
		return source{}, fmt.Errorf("no clone of %s at or above %s, and no module there that requires it: the lab is built from source: run this in a clone, or in a folder that homelab new FOLDER makes: %w", module, dir, err)
	}
	if r := lib.Replace; r != nil && r.Version == "" {
		return source{dir: filepath.Join(r.Dir, "sim", "lab", o.program().module)}, nil
	}
	progress.Say(ctx, "fetching the lab's source, %s", lib.Version)
	of := func(path string) (string, error) {
		var m goModule
		if err := asked(ctx, &m, dir, "mod", "download", "-json", path+"@"+lib.Version); err != nil {
			return "", fmt.Errorf("fetch the lab's source: %w", err)
		}
		if m.Dir == "" {
			return "", fmt.Errorf("fetch the lab's source: go does not say where %s is", path)
		}
		return m.Dir, nil
	}
	library, err := of(module)
	if err != nil {
		return source{}, err
	}
	lab, err := of(module + "/sim/lab")
	if err != nil {
		return source{}, err
	}
	inner := o.program().module
	if inner == "" {
		return o.beside(lab, [2]string{module + " => ../../", library})
	}
	program, err := of(module + "/sim/lab/" + inner)
	if err != nil {
		return source{}, err
	}
	return o.beside(program, [2]string{module + " => ../../../", library}, [2]string{module + "/sim/lab => ../", lab})
}

// beside writes a go.mod for a program of the lab that requires modules in other folders: each
// replacement, as it is written, with its folder.
func (o Options) beside(lab string, others ...[2]string) (source, error) {
	dir, err := o.dir()
	if err != nil {
		return source{}, err
	}
	text, err := os.ReadFile(filepath.Join(lab, "go.mod"))
	if err != nil {
		return source{}, fmt.Errorf("the lab's source: %w", err)
	}
	here := string(text) + "\n"
	for _, other := range others {
		above := "replace " + other[0] + "\n"
		path, _, _ := strings.Cut(above, "=>")
		if !strings.Contains(here, above) {
			return source{}, fmt.Errorf("the lab's source: %s does not say %q", filepath.Join(lab, "go.mod"), strings.TrimSpace(above))
		}
		here = strings.Replace(here, above, path+"=> "+strconv.Quote(other[1])+"\n", 1)
	}
	sums, err := os.ReadFile(filepath.Join(lab, "go.sum"))
	if err != nil {
		return source{}, fmt.Errorf("the lab's source: %w", err)
	}
	s := source{dir: lab, modfile: filepath.Join(dir, "lab.mod")}
	err = errors.Join(os.WriteFile(s.modfile, []byte(here), 0o600), os.WriteFile(filepath.Join(dir, "lab.sum"), sums, 0o600))
	if err != nil {
		return source{}, fmt.Errorf("the lab's source: %w", err)
	}
	return s, nil
}

// asked reads the JSON output of a go command.
func asked(ctx context.Context, into *goModule, dir string, args ...string) error {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOWORK=off")
	var said bytes.Buffer
	cmd.Stderr = &said
	out, err := cmd.Output()
	if json.Unmarshal(out, into) == nil && into.Error != nil {
		return fmt.Errorf("go %s: %v", args[0], into.Error)
	}
	if err != nil {
		return fmt.Errorf("go %s: %w: %s", args[0], err, bytes.TrimSpace(said.Bytes()))
	}
	return nil
}

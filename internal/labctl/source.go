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

	"github.com/cps-gpu/homelab/converge"
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
			return o.requiredSource(ctx, dir)
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

// requiredSource is the source of the version that the module in dir requires. Go's downloads
// exclude nested modules, so the simulators and the lab are fetched separately.
func (o Options) requiredSource(ctx context.Context, dir string) (source, error) {
	var lib goModule
	if err := goJSON(ctx, &lib, dir, "list", "-m", "-mod=readonly", "-json", module); err != nil {
		return source{}, fmt.Errorf("no clone of %s at or above %s, and no module there that requires it: the lab is built from source: run this in a clone, or in a folder that homelab new FOLDER makes: %w", module, dir, err)
	}
	if r := lib.Replace; r != nil && r.Version == "" {
		return source{dir: filepath.Join(r.Dir, "sim", "lab", o.program().module)}, nil
	}
	converge.Progressf(ctx, "fetching the lab's source, %s", lib.Version)
	of := func(path string) (string, error) {
		var m goModule
		if err := goJSON(ctx, &m, dir, "mod", "download", "-json", path+"@"+lib.Version); err != nil {
			return "", fmt.Errorf("fetch the lab's source: %w", err)
		}
		if m.Dir == "" {
			return "", fmt.Errorf("fetch the lab's source: go does not say where %s is", path)
		}
		return m.Dir, nil
	}
	// The last has the program; its go.mod replaces the others by their folders above it.
	paths, above := []string{module, module + "/sim", module + "/sim/lab"}, []string{"../../", "../"}
	if inner := o.program().module; inner != "" {
		paths, above = append(paths, module+"/sim/lab/"+inner), []string{"../../../", "../../", "../"}
	}
	var others []replacement
	for i, path := range paths[:len(above)] {
		dir, err := of(path)
		if err != nil {
			return source{}, err
		}
		others = append(others, replacement{path, above[i], dir})
	}
	lab, err := of(paths[len(above)])
	if err != nil {
		return source{}, err
	}
	return o.writeModule(lab, others)
}

// replacement is a line of the lab's go.mod: where the module is in a clone, and where it was downloaded to.
type replacement struct{ path, above, dir string }

// writeModule writes a go.mod for a program of the lab that requires modules in other folders.
func (o Options) writeModule(lab string, others []replacement) (source, error) {
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
		replace := "replace " + other.path + " => "
		if !strings.Contains(here, replace+other.above+"\n") {
			return source{}, fmt.Errorf("the lab's source: %s does not say %q", filepath.Join(lab, "go.mod"), replace+other.above)
		}
		here = strings.Replace(here, replace+other.above+"\n", replace+strconv.Quote(other.dir)+"\n", 1)
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

// goJSON reads the JSON output of a go command.
func goJSON(ctx context.Context, into *goModule, dir string, args ...string) error {
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

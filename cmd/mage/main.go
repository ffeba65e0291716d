// Command mage is what `go tool mage` runs: Mage itself, which compiles a folder's magefile, with three differences.
// It says at once what takes long, and shows how far the compiler is. It runs the program that it compiled before
// if nothing of what it was compiled from has changed, which takes a tenth of a second. And of two commands in
// one folder one compiles and the other waits.
//
// It imports little, so that it is compiled within seconds itself: neither fmt nor Mage, which it builds and runs
// for whatever else one asks it for (-init, -compile, -version and the like).
package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
)

func main() {
	code, err := mage(os.Args[1:])
	if err != nil {
		printLine("Error: " + err.Error())
	}
	os.Exit(code)
}

// printLine prints a line on standard error.
func printLine(line string) { _, _ = os.Stderr.WriteString(line + "\n") }

func mage(args []string) (code int, err error) {
	l := parse(args)
	f, err := folderOf(l)
	if err != nil {
		return 1, err
	}
	if l.own && f.fresh() && !l.force {
		return f.run(l)
	}
	if l.own && !l.list && !l.help {
		if err := f.build(l); err != nil {
			return exitCode(err)
		}
		return f.run(l)
	}
	return f.original(l, args)
}

// folder is a folder with a magefile, and where its program is kept.
type folder struct {
	dir   string // of the magefile
	gocmd string
	kept  string // a folder of its own, below Mage's cache
}

// folderOf finds the magefile as Mage does: a folder magefiles comes before files in the folder itself.
func folderOf(l line) (folder, error) {
	dir, err := filepath.Abs(l.dir)
	if err != nil {
		return folder{}, err
	}
	if st, err := os.Stat(filepath.Join(dir, "magefiles")); err == nil && st.IsDir() && len(magefiles(dir)) == 0 {
		dir = filepath.Join(dir, "magefiles")
	}
	cache := os.Getenv("MAGEFILE_CACHE")
	if cache == "" {
		home, err := os.UserHomeDir()
		if err != nil {
			return folder{}, err
		}
		cache = filepath.Join(home, ".magefile")
	}
	if cache, err = filepath.Abs(cache); err != nil {
		return folder{}, err
	}
	return folder{dir: dir, gocmd: l.gocmd, kept: filepath.Join(cache, "homelab-"+hash(dir))}, nil
}

func (f folder) program() string { return filepath.Join(f.kept, programName) }

// build compiles the folder's magefile, unless another command has just done so.
func (f folder) build(l line) error {
	unlock, err := f.lock()
	if err != nil {
		return err
	}
	defer unlock()
	if f.fresh() && !l.force {
		return nil
	}
	inputs, err := f.prepare()
	if err != nil {
		return err
	}
	fresh := filepath.Join(f.kept, "new", programName) // a program's help has the name of its file
	if err := f.compiler(f.magePath(), "-gocmd", f.gocmd, "-d", f.dir, "-compile", fresh).Run(); err != nil {
		return err
	}
	if err := replace(fresh, f.program()); err != nil {
		return err
	}
	return f.remember(inputs)
}

// prepare builds Mage and everything that the magefile imports, and returns the files that the magefile is compiled from.
func (f folder) prepare() ([]string, error) {
	if err := f.removeStored(func(dir string) bool { return dir != "" && !exists(dir) }); err != nil {
		return nil, err
	}
	if err := os.WriteFile(filepath.Join(f.kept, "folder"), []byte(f.dir), 0o600); err != nil {
		return nil, err
	}
	b := bar{first: !exists(f.program())}
	b.start()
	defer b.end()
	if err := f.buildMage(); err != nil {
		return nil, err
	}
	p, err := f.list(&b)
	if err != nil || len(p.imports) == 0 {
		return p.inputs, err
	}
	b.compile(p.stale, p.all)
	return p.inputs, f.compile(&b, p.imports)
}

// original runs Mage with these arguments. It writes a file into the folder if it compiles, so others wait, but not
// for its targets, which may run Mage themselves.
func (f folder) original(l line, args []string) (int, error) {
	unlock, err := f.lock()
	if err != nil {
		return 1, err
	}
	unlock = sync.OnceFunc(unlock)
	defer unlock()
	if l.compile {
		_, err = f.prepare()
	} else {
		err = f.buildMage()
	}
	if err != nil {
		return exitCode(err)
	}
	if len(l.targets) > 0 {
		unlock()
	}
	cmd := f.command(f.magePath(), args...)
	if len(l.targets) == 0 { // targets get the user's settings
		cmd = f.compiler(f.magePath(), args...)
	}
	cmd.Dir, cmd.Stdin, cmd.Stdout = "", os.Stdin, os.Stdout
	code, err := exitCode(cmd.Run())
	if l.clean && code == 0 {
		err = f.removeStored(func(string) bool { return true })
	}
	return code, err
}

// removeStored removes what is kept for some folders: a program has a hundred megabytes.
func (f folder) removeStored(whose func(dir string) bool) error {
	all, err := filepath.Glob(filepath.Join(filepath.Dir(f.kept), "homelab-*", "folder"))
	for _, path := range all {
		if dir, _ := os.ReadFile(path); whose(string(dir)) { // one that is gone meanwhile is gone
			err = errors.Join(err, os.RemoveAll(filepath.Dir(path)))
		}
	}
	return err
}

// magePath is Mage as built for this folder: its version is that of the folder's go.mod.
func (f folder) magePath() string { return filepath.Join(f.kept, "original"+filepath.Ext(programName)) }

func (f folder) buildMage() error {
	return f.command(f.gocmd, "build", "-o", f.magePath(), "github.com/magefile/mage").Run()
}

// command is a command in the magefile's folder whose messages are shown.
func (f folder) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...) //nolint:noctx // ends with this program, by the terminal's signal
	cmd.Dir, cmd.Stderr = f.dir, os.Stderr
	return cmd
}

// flags are for everything that is compiled for a magefile, after which nobody looks with a debugger: what one
// needs is a quarter of a package and an eighth of its compilation. The standard library was partly compiled with
// it, for this program. With kustomize's plugins the linker would keep and export every function.
const flags = "-tags=kustomize_disable_go_plugin_support -gcflags=all=-dwarf=false -gcflags=std= -ldflags=-s"

// compiler is a command that compiles, with flags and after them the user's.
func (f folder) compiler(name string, args ...string) *exec.Cmd {
	cmd := f.command(name, args...)
	users, _ := f.command(f.gocmd, "env", "GOFLAGS").Output() // if go does not work, cmd says so
	cmd.Env = append(os.Environ(), "GOFLAGS="+flags+" "+strings.TrimSpace(string(users)))
	return cmd
}

// exitCode returns the exit code of a command that has said itself what is wrong, or 1.
func exitCode(err error) (int, error) {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return max(1, exit.ExitCode()), nil
	}
	if err != nil {
		return 1, err
	}
	return 0, nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

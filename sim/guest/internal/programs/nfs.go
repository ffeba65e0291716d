package programs

import (
	"context"
	"fmt"
	"strings"

	"github.com/cps-gpu/homelab/sim/guest/internal/disk"
	"github.com/cps-gpu/homelab/sim/guest/internal/getopt"
	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// exportTable is where nfs-utils keep what is exported.
const exportTable = "/var/lib/nfs/etab"

// runExportfs is exportfs -ra and -v: the files of exports become the table, and the
// table is shown. Nobody mounts anything here.
func runExportfs(_ context.Context, p *machine.Proc) int {
	opts, _ := getopt.Parse(p.Args[1:])
	if p.User.UID != 0 {
		return p.Fail("could not open %s for locking: errno 13 (Permission denied)", exportTable)
	}
	if !getopt.Has(opts, "r", "a") {
		data, err := p.FS.ReadFile(exportTable)
		if err == nil {
			p.Printf("%s", data)
		}
		return 0
	}
	code := 0
	var out strings.Builder
	for _, file := range exportFiles(p) {
		data, err := p.FS.ReadFile(file)
		if err != nil {
			continue // there need not be one
		}
		for line := range strings.Lines(string(data)) {
			line, _, _ = strings.Cut(line, "#")
			f := strings.Fields(line)
			if len(f) == 0 {
				continue
			}
			if _, err := p.FS.Stat(f[0]); err != nil {
				code = p.Fail("Failed to stat %s: No such file or directory", f[0])
				continue
			}
			for _, client := range f[1:] {
				fmt.Fprint(&out, exportLine(f[0], client))
			}
		}
	}
	if err := p.FS.MkdirAll("/var/lib/nfs", 0o755); err != nil {
		return p.Fail("%s", disk.Strerror(err))
	}
	if err := p.FS.WriteFile(exportTable, []byte(out.String()), 0o644); err != nil {
		return p.Fail("%s", disk.Strerror(err))
	}
	return code
}

// exportFiles are /etc/exports and those beside it.
func exportFiles(p *machine.Proc) []string {
	files := []string{"/etc/exports"}
	entries, err := p.FS.ReadDir("/etc/exports.d")
	if err != nil {
		return files
	}
	for _, e := range entries {
		if strings.HasSuffix(e.Name(), ".exports") {
			files = append(files, "/etc/exports.d/"+e.Name())
		}
	}
	return files
}

// exportLine is an export as exportfs -v shows it: a long name has a line of its own.
func exportLine(path, client string) string {
	network, options, _ := strings.Cut(strings.TrimSuffix(client, ")"), "(")
	const column = 15
	if len(path) > column {
		return fmt.Sprintf("%s\n\t\t%s(%s,sec=sys)\n", path, network, options)
	}
	return fmt.Sprintf("%-*s\t%s(%s,sec=sys)\n", column, path, network, options)
}

package k3s

import (
	"bytes"
	"context"
	_ "embed" // the script below
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/remote"
)

//go:embed observe.sh
var observeScript string

// State is the observed state of K3s on a machine.
type State struct {
	Role    Role   // by the existing units
	Version string // of the binary; empty if there is none
	Arch    string // of the machine, as [Release.Arch] has it, or else as uname -m says it; empty if it was not seen
	Active  string // systemd's word: active, activating, deactivating, failed, inactive; empty without a unit
	Enabled bool   // starts with the machine

	Config       map[string]any    // config.yaml
	Unit         string            // the unit file
	TokenMode    string            // permission bits of the token file, e.g. "600"; empty if there is none
	Applied      string            // digest of what was last started
	Cluster      string            // the name in [ClusterFile]; empty if there is none
	Authority    string            // SHA-256 of the certificate authority of its cluster; empty before it joined one
	Registries   string            // SHA-256 of registries.yaml, which contains passwords; empty if there is none
	S3           string            // SHA-256 of the file with the bucket's keys; empty if there is none
	S3Mode       string            // its permission bits
	Manifests    map[string]string // SHA-256 of the files in the manifests folder, by name
	Restoring    string            // what [StopForRestore] began to restore; empty if it is over
	Journal      []string          // the end of K3s' journal since its last start; only if it is not active
	Ended        string            // how K3s' last run ended since then, in its own words; only if it is not active
	ForeignFiles []ForeignFile     // foreign files that K3s or its unit also reads
}

// ForeignFile is a file that affects K3s and is not ours: in config.yaml.d, an environment file of
// the unit, or a drop-in of it. It does not count as drift, and this package does not touch
// it.
type ForeignFile struct {
	Path string
	Keys []string // what it sets, without the values, which may be secrets
}

// String returns the file and what it sets.
func (o ForeignFile) String() string {
	if len(o.Keys) == 0 {
		return o.Path
	}
	return o.Path + " (" + strings.Join(o.Keys, ", ") + ")"
}

// Running reports whether K3s has started and, for an agent, has joined.
func (s State) Running() bool { return s.Active == "active" }

// Diagnosis says what keeps K3s from running, if its journal shows it.
func (s State) Diagnosis() (Diagnosis, bool) {
	// While a unit is being stopped, its last lines may repeat an old problem.
	if s.Running() || s.Active == "deactivating" {
		return Diagnosis{}, false
	}
	if s.Role == RoleAgent {
		return diagnoseAgent(s.Journal)
	}
	return Diagnose(s.Journal)
}

// Reason says what keeps K3s from running: the diagnosis of its journal, and how its last run ended
// if that may happen again. Empty: nothing is known.
func (s State) Reason() string {
	d, ok := s.Diagnosis()
	switch {
	case s.Ended == "" || d.Fatal:
		return d.String()
	case !ok:
		return "its last run ended: " + s.Ended
	}
	return d.String() + "; its last run ended: " + s.Ended
}

// messageOf is the message of a line of K3s' log.
func messageOf(line string) string {
	_, message, _ := strings.Cut(line, " msg=")
	message = strings.TrimSpace(message)
	quoted, err := strconv.QuotedPrefix(message)
	if err != nil {
		return message
	}
	text, _ := strconv.Unquote(quoted) // QuotedPrefix has read it
	return strings.TrimPrefix(text, "Shutdown request received: ") + strings.TrimPrefix(message, quoted)
}

// journalLines is how many lines of the journal observe.sh asks for.
const journalLines = 60

// diagnoseAgent diagnoses an agent's present run. If that cannot join because an earlier one has
// ended, the reason for that counts.
func diagnoseAgent(journal []string) (Diagnosis, bool) {
	now := currentRun(journal)
	d, ok := Diagnose(now)
	if strings.Contains(d.Line, refusal) && !wasRefused(now) {
		return firstDiagnosis(transientSymptoms, []string{d.Line})
	}
	if d.StaleCertificate() {
		if before, _ := Diagnose(journal[:len(journal)-len(now)]); before.Fatal && !before.StaleCertificate() {
			return before, true
		}
	}
	return d, ok
}

// refusal is the answer to an agent whose token the server does not know. A server that starts gives
// it to good bootstrap tokens, too, for some seconds before it knows them (testdata/real/README.md).
const refusal = "not authorized"

// refusals is how often in a row an agent, which asks every six seconds or less often, must be
// refused until its token is at fault.
const refusals = 3

// wasRefused reports whether the last answers that an agent got are refusals, or ended it.
func wasRefused(now []string) bool {
	n := 0
	for _, line := range slices.Backward(now) {
		switch {
		case strings.Contains(line, "level=fatal") && strings.Contains(line, refusal):
			return true
		case !strings.Contains(line, "Waiting to retrieve agent configuration"):
		case !strings.Contains(line, refusal):
			return false
		default:
			n++
		}
		if n == refusals {
			return true
		}
	}
	return false
}

// currentRun returns the lines of an agent's present run: lines before its last start mostly belong
// to another configuration. A server ends often, and is started again.
func currentRun(journal []string) []string {
	for i := len(journal) - 1; i >= 0; i-- {
		if startsRun(journal[i]) {
			return journal[i:]
		}
	}
	if len(journal) >= journalLines { // it started before the first line
		return journal
	}
	// No line of the present run yet: an agent's lines about its server belong to the previous
	// run.
	return slices.DeleteFunc(slices.Clone(journal), func(line string) bool {
		return strings.Contains(line, "failed to retrieve") || strings.Contains(line, "Waiting to retrieve")
	})
}

// startsRun reports whether a line is the first of an agent's run: systemd's, which names the unit or,
// before 250, its description, or K3s' own, some tenths of a second later.
func startsRun(line string) bool {
	return strings.Contains(line, "Starting k3s agent") || strings.HasPrefix(line, "Starting k3s-agent.service") ||
		strings.HasPrefix(line, "Starting K3s agent")
}

// Observe reads the state of K3s on the machine behind r, in one round trip. A machine without
// K3s gives a State without role and version, not an error.
func Observe(ctx context.Context, r remote.Runner) (State, error) {
	out, err := remote.Output(ctx, r, "sh", "-c", observeScript, "observe.sh")
	if err != nil {
		return State{}, fmt.Errorf("look at k3s: %w", err)
	}
	s, err := parseState(out)
	if err != nil {
		return State{}, fmt.Errorf("look at k3s: %w", err)
	}
	return s, nil
}

// parseState reads what observe.sh printed.
func parseState(out []byte) (State, error) {
	sections := split(out)
	if _, whole := sections["end"]; !whole {
		return State{}, fmt.Errorf("the output was truncated after %d bytes", len(out))
	}
	s := State{Manifests: map[string]string{}}
	s.Arch = archOf(strings.TrimSpace(sections["arch"]))
	if m := versionLine.FindStringSubmatch(sections["version"]); m != nil {
		s.Version = m[1]
	}
	for _, role := range []Role{RoleServer, RoleAgent} {
		switch unit, there := sections["unit "+role.Unit()]; {
		case !there:
		case s.Role != RoleNone:
			s.Role = RoleBoth
		default:
			s.Role, s.Unit = role, unit
			s.Active = strings.TrimSpace(sections["active "+role.Unit()])
			s.Enabled = strings.TrimSpace(sections["enabled "+role.Unit()]) == "enabled"
			s.Journal = lines(sections["journal "+role.Unit()])
			s.Ended = messageOf(sections["ended "+role.Unit()])
		}
	}
	if text := sections["config"]; strings.TrimSpace(text) != "" {
		if err := yaml.Unmarshal([]byte(text), &s.Config); err != nil {
			// A broken file counts as a difference, and is written again.
			s.Config = map[string]any{"(broken)": err.Error()}
		}
	}
	for _, line := range lines(sections["others"]) {
		if file, keys, ok := strings.Cut(line, ":"); ok {
			s.ForeignFiles = append(s.ForeignFiles, ForeignFile{Path: file, Keys: strings.Fields(keys)})
		}
	}
	s.TokenMode = strings.TrimSpace(sections["token"])
	s.Registries, _, _ = strings.Cut(strings.TrimSpace(sections["registries"]), " ")
	s.S3, s.S3Mode, _ = strings.Cut(strings.TrimSpace(sections["s3"]), "\n")
	s.S3, _, _ = strings.Cut(s.S3, " ")
	s.Applied = strings.TrimSpace(sections["applied"])
	s.Cluster = strings.TrimSpace(sections["cluster"])
	s.Restoring = strings.TrimSpace(sections["restoring"])
	s.Authority, _, _ = strings.Cut(strings.TrimSpace(sections["authority"]), " ")
	for _, line := range lines(sections["manifests"]) {
		if sum, file, ok := strings.Cut(line, "  "); ok {
			s.Manifests[path.Base(file)] = sum
		}
	}
	return s, nil
}

// split splits the output of observe.sh into its sections, by name. Each starts with an empty
// line that is not part of the section before.
func split(out []byte) map[string]string {
	sections := map[string]string{}
	for _, part := range bytes.Split(out, []byte("\n@@ "))[1:] {
		name, text, _ := bytes.Cut(part, []byte("\n"))
		sections[string(name)] = string(text)
	}
	return sections
}

func lines(s string) []string {
	var out []string
	for line := range strings.SplitSeq(s, "\n") {
		if line = strings.TrimSpace(line); line != "" {
			out = append(out, line)
		}
	}
	return out
}

package conform

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// recordings are exchanges with real Proxmox VE 9.2 daemons: one node, directory storage, no KVM, and
// PCI devices that were files. The first is one long session; in the others every scenario started on a
// fresh host. In the third, requests were sent at set times, byte by byte, or with files; the fourth and
// the fifth are of other such hosts, without other contents.
//
//go:embed recorded.jsonl.gz recorded-2.jsonl.gz recorded-2-raw.jsonl.gz recorded-3.jsonl.gz recorded-4.jsonl.gz
var recordings embed.FS

// recordingNames are those of the embedded recordings, in order.
func recordingNames() []string {
	return []string{"recorded.jsonl.gz", "recorded-2.jsonl.gz", "recorded-2-raw.jsonl.gz", "recorded-3.jsonl.gz", "recorded-4.jsonl.gz"}
}

// exchange is one request and its answer. The secrets in it are those of daemons
// that lived for a test.
type exchange struct {
	Method   string         `json:"method"`
	Path     string         `json:"path"`
	Params   map[string]any `json:"params,omitempty"`
	JSONBody bool           `json:"json_body,omitempty"`
	Auth     string         `json:"auth,omitempty"`
	Status   int            `json:"status"`
	Reason   string         `json:"reason"`
	Type     string         `json:"content_type,omitempty"`
	Body     string         `json:"body,omitempty"`

	Scenario string      `json:"scenario,omitempty"`
	Area     string      `json:"area,omitempty"`
	At       float64     `json:"at,omitempty"`    // seconds since the scenario began
	Timed    bool        `json:"timed,omitempty"` // sent at that moment, whatever was still at work
	Raw      *rawRequest `json:"raw,omitempty"`
	Upload   *sentFile   `json:"upload,omitempty"`
}

// rawRequest is a request that was sent unchanged, including its path.
type rawRequest struct {
	Body    *string           `json:"body,omitempty"`
	Type    *string           `json:"content_type,omitempty"`
	Headers map[string]string `json:"headers,omitempty"`
}

// sentFile is a multipart upload.
type sentFile struct {
	Fields   [][2]string `json:"fields"`
	Filename *string     `json:"filename,omitempty"`
	Data     string      `json:"data"` // what it was, in words
}

func (e exchange) String() string { return e.Method + " " + e.Path }

// request is the request with its UPID shortened, for people and for rules.
func (e exchange) request() string {
	path, err := url.PathUnescape(e.Path)
	if err != nil {
		path = e.Path
	}
	if len(path) > 300 {
		path = path[:300] + "…"
	}
	return e.Method + " " + encodedUPID.ReplaceAllString(path, "UPID…")
}

// Scenario is a sequence of exchanges that started on a fresh host.
type Scenario struct {
	File string
	Name string // empty where the whole file is one
	had  []exchange

	domain string // of the host, as the recording has it
	memory int64  // of the host, in bytes; 0 where nobody asked
}

func (s Scenario) String() string {
	if s.Name == "" {
		return s.File
	}
	return s.Name
}

// Scenarios reads recordings, compressed or not; without files, the embedded ones.
func Scenarios(files ...string) ([]Scenario, error) {
	var out []Scenario
	add := func(name string, raw []byte) error {
		had, err := readExchanges(name, raw)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		out = append(out, byScenario(filepath.Base(name), had)...)
		return nil
	}
	if len(files) == 0 {
		for _, name := range recordingNames() {
			raw, err := recordings.ReadFile(name)
			if err == nil {
				err = add(name, raw)
			}
			if err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	for _, name := range files {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		if err := add(name, raw); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func byScenario(file string, had []exchange) (out []Scenario) {
	at := map[string]int{}
	domain, memory := domainOf(had), memoryOf(had)
	for _, e := range had {
		i, there := at[e.Scenario]
		if !there {
			i = len(out)
			at[e.Scenario] = i
			out = append(out, Scenario{File: file, Name: e.Scenario, domain: domain, memory: memory})
		}
		out[i].had = append(out[i].had, e)
	}
	return out
}

var searched = regexp.MustCompile(`"search":"([a-z0-9.-]+)"`)

// domainOf is the domain of the host that a file is of: what its resolver searched
// before anybody changed it, record.test where nobody asked.
func domainOf(had []exchange) string {
	for _, e := range had {
		if m := searched.FindStringSubmatch(e.Body); m != nil && e.Method == "GET" {
			return m[1]
		}
	}
	return "record.test"
}

// memoryOf is the memory of the host that a file is of, as its list of nodes says it.
func memoryOf(had []exchange) int64 {
	for _, e := range had {
		var nodes struct {
			Data []struct {
				Type   string
				MaxMem int64
			}
		}
		if e.Method == "GET" && e.Path == "/nodes" && json.Unmarshal([]byte(e.Body), &nodes) == nil && len(nodes.Data) > 0 && nodes.Data[0].MaxMem > 0 {
			return nodes.Data[0].MaxMem
		}
	}
	return 0
}

func readExchanges(name string, raw []byte) ([]exchange, error) {
	if !strings.HasSuffix(name, ".gz") {
		return parseExchanges(bytes.NewReader(raw))
	}
	var out []exchange
	err := unpack(raw, func(r io.Reader) (err error) {
		out, err = parseExchanges(r)
		return err
	})
	return out, err
}

// parseExchanges reads one exchange per line.
func parseExchanges(r io.Reader) (out []exchange, err error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 4<<20)
	for n := 1; lines.Scan(); n++ {
		if len(bytes.TrimSpace(lines.Bytes())) == 0 {
			continue
		}
		var e exchange
		dec := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		dec.UseNumber()
		if err := dec.Decode(&e); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
		out = append(out, e)
	}
	return out, lines.Err()
}

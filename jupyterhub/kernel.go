package jupyterhub

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/tls"
	_ "embed" // the code that looks around
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/websocket"

	"github.com/cps-gpu/homelab/converge"
)

//go:embed files/look.py
var lookScript string

// Observation is what the code in a server observed.
type Observation struct {
	Python   string   `json:"python"`        // version
	CPUs     float64  `json:"cpus"`          // that it may use
	Memory   Bytes    `json:"memory"`        // that it may use; 0: no limit
	SHM      Bytes    `json:"shm"`           // size of /dev/shm
	Home     string   `json:"home"`          // its home folder
	Writable bool     `json:"writable"`      // a file could be written there
	GPUs     []GPU    `json:"gpus"`          // on which a sum of vectors was right
	Devices  []string `json:"devices"`       // /dev/nvidiaN that are there
	Driver   string   `json:"driver"`        // version of CUDA that the driver speaks
	Beyond   bool     `json:"beyond"`        // more memory than GPUMemory could be taken
	Problem  string   `json:"problem"`       // why CUDA does not compute
	SSH      string   `json:"ssh,omitempty"` // how SSH into it announces itself; empty: not asked
}

// GPU is a GPU that computed.
type GPU struct {
	Name   string `json:"name"`
	Memory Bytes  `json:"memory"`
}

// String returns one line.
func (s Observation) String() string {
	text := fmt.Sprintf("Python %s, %s cores", s.Python, cores(s.CPUs))
	if s.Memory > 0 {
		text += ", " + s.Memory.roughly()
	}
	for _, g := range s.GPUs {
		text += ", " + g.Name + " computes"
	}
	if s.SSH != "" {
		text += ", " + s.SSH
	}
	return text
}

// compare compares the observation with what is wanted.
func (s Observation) compare(check Check) error {
	var wrong []error
	if !s.Writable {
		wrong = append(wrong, fmt.Errorf("its home folder %s is not writable: the volume belongs to another user", s.Home))
	}
	switch wants := check.GPUs > 0 || check.AnyGPU; {
	case !wants && len(s.Devices) > 0:
		wrong = append(wrong, fmt.Errorf("it sees %s though it requested no GPU: a runtime class on a profile without GPUs, or NVIDIA's runtime as the default one", strings.Join(s.Devices, " ")))
	case wants && s.Problem != "":
		wrong = append(wrong, fmt.Errorf("CUDA does not compute: %s", s.Problem))
	case check.GPUs > 0 && len(s.GPUs) != check.GPUs:
		wrong = append(wrong, fmt.Errorf("it computes on %s and requested %d", plural(len(s.GPUs), "GPU"), check.GPUs))
	case check.AnyGPU && len(s.GPUs) == 0:
		wrong = append(wrong, errors.New("it computes on no GPU"))
	}
	if s.Beyond {
		wrong = append(wrong, fmt.Errorf("it could use more than its %s of GPU memory: nothing limits it, so its GPU is not shared by MPS", check.GPUMemory))
	}
	return errors.Join(wrong...)
}

// look runs code in the user's server. It retries if it gets no answer.
func (v *verifier) look(ctx context.Context, check Check) (saw Observation, err error) {
	rule := converge.WaitRule{What: "running code in its server", Limit: v.o.Run, TimeoutText: "the code in its server did not end",
		Strict: true}
	err = converge.Until(ctx, rule, func(ctx context.Context) (_ string, err error) {
		saw, err = v.lookOnce(ctx, check)
		return "", err
	})
	return saw, err
}

// lookOnce runs code in the user's server, by the server's own API.
func (v *verifier) lookOnce(ctx context.Context, check Check) (Observation, error) {
	s, err := v.server(ctx)
	if err != nil {
		return Observation{}, err
	}
	if s == nil || !s.Ready {
		return Observation{}, errors.New("its server stopped as soon as it was ready")
	}
	kernel, err := v.pythonKernel(ctx, s.URL)
	if err != nil {
		return Observation{}, err
	}
	var made struct{ ID string }
	if _, err := v.call(ctx, http.MethodPost, s.URL+"api/kernels", map[string]any{"name": kernel}, &made); err != nil {
		return Observation{}, fmt.Errorf("a kernel in its server: %w", err)
	}
	ask, err := json.Marshal(map[string]any{"gpu": check.GPUs > 0 || check.AnyGPU, "limit": int64(check.GPUMemory)})
	if err != nil {
		return Observation{}, err
	}
	text, err := json.Marshal(string(ask)) // a string of JSON is one of Python
	if err != nil {
		return Observation{}, err
	}
	out, err := v.execute(ctx, s.URL+"api/kernels/"+url.PathEscape(made.ID)+"/channels", "ASK = "+string(text)+"\n"+lookScript)
	if err != nil {
		return Observation{}, fmt.Errorf("running code in its server: %w", err)
	}
	return sight(out)
}

// sightMark is the start of the line that the code prints.
const sightMark = "homelab-verify: "

func sight(out string) (Observation, error) {
	i := strings.LastIndex(out, sightMark)
	if i < 0 {
		return Observation{}, fmt.Errorf("the code in its server ended without a result: %q", tail(out, 400))
	}
	line, _, _ := strings.Cut(out[i+len(sightMark):], "\n")
	var s Observation
	if err := json.Unmarshal([]byte(line), &s); err != nil {
		return Observation{}, fmt.Errorf("the code in its server answered %q: %w", tail(line, 400), err)
	}
	return s, nil
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }

// pythonKernel returns the server's kernel for Python; its default one, if that is for Python.
func (v *verifier) pythonKernel(ctx context.Context, base string) (string, error) {
	var specs struct {
		Default     string
		Kernelspecs map[string]struct{ Spec struct{ Language string } }
	}
	if _, err := v.call(ctx, http.MethodGet, base+"api/kernelspecs", nil, &specs); err != nil {
		return "", fmt.Errorf("kernels of its server: %w", err)
	}
	var python []string
	for name, k := range specs.Kernelspecs {
		if strings.EqualFold(k.Spec.Language, "python") {
			python = append(python, name)
		}
	}
	if len(python) == 0 {
		return "", errors.New("its image has no Python kernel to check it with")
	}
	if slices.Contains(python, specs.Default) {
		return specs.Default, nil
	}
	slices.Sort(python)
	return python[0], nil
}

// message is one of Jupyter's messaging protocol, as servers write it to websockets.
type kernelMessage struct {
	Channel string       `json:"channel"`
	Header  kernelHeader `json:"header"`
	Parent  kernelHeader `json:"parent_header"`
	Meta    struct{}     `json:"metadata"`
	Content any          `json:"content"`
}

type kernelHeader struct {
	ID       string `json:"msg_id,omitempty"`
	Type     string `json:"msg_type,omitempty"`
	Session  string `json:"session,omitempty"`
	Username string `json:"username,omitempty"`
	Version  string `json:"version,omitempty"`
	Date     string `json:"date,omitempty"`
}

// answer has the fields that matter here of a kernel's messages, of all types.
type answer struct {
	Header  kernelHeader `json:"header"`
	Parent  kernelHeader `json:"parent_header"`
	Content struct {
		Text      string   `json:"text"`            // stream
		State     string   `json:"execution_state"` // status
		Status    string   `json:"status"`          // execute_reply
		Name      string   `json:"ename"`           // error
		Value     string   `json:"evalue"`
		Traceback []string `json:"traceback"`
	} `json:"content"`
}

// execute runs code in a kernel and returns what it printed.
func (v *verifier) execute(ctx context.Context, path, code string) (string, error) {
	ws, err := v.websocket(ctx, path)
	if err != nil {
		return "", err
	}
	defer func() { _ = ws.Close() }()
	defer context.AfterFunc(ctx, func() { _ = ws.Close() })()

	header := kernelHeader{
		ID: rand.Text(), Session: rand.Text(), Type: "execute_request", Username: verifyUser, Version: "5.3",
		Date: time.Now().UTC().Format(time.RFC3339),
	}
	err = websocket.JSON.Send(ws, kernelMessage{Channel: "shell", Header: header, Content: map[string]any{
		"code": code, "silent": false, "store_history": false, "user_expressions": struct{}{}, "allow_stdin": false, "stop_on_error": true,
	}})
	if err != nil {
		return "", orCause(ctx, markTransient(err))
	}
	var out strings.Builder
	var replied, idle bool
	for !replied || !idle { // in any order: they come on two channels
		var m answer
		if err := websocket.JSON.Receive(ws, &m); err != nil {
			return out.String(), orCause(ctx, fmt.Errorf("the kernel's answers end: %w", markTransient(err)))
		}
		if m.Parent.ID != header.ID {
			continue
		}
		switch m.Header.Type {
		case "stream":
			out.WriteString(m.Content.Text)
		case "error":
			return out.String(), fmt.Errorf("%s: %s", m.Content.Name, plain(m.Content.Value))
		case "execute_reply":
			replied = true
			if m.Content.Status == "aborted" {
				return out.String(), errors.New("the kernel did not run it")
			}
		case "status":
			idle = idle || m.Content.State == "idle"
		}
	}
	return out.String(), nil
}

// colours are what IPython writes into errors for terminals.
var colours = regexp.MustCompile("\x1b\\[[0-9;]*m")

func plain(s string) string { return colours.ReplaceAllString(s, "") }

// orCause returns why a connection ended: the context's cause, or err.
func orCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("no answer in time: %w", cause)
	}
	return err
}

// websocket opens a websocket behind the hub, on the same route as requests.
func (v *verifier) websocket(ctx context.Context, path string) (*websocket.Conn, error) {
	at := *v.base
	at.Scheme = map[string]string{"http": "ws", "https": "wss"}[v.base.Scheme]
	config, err := websocket.NewConfig(at.String()+path, v.base.String())
	if err != nil {
		return nil, err
	}
	config.Header = http.Header{"Authorization": {"token " + v.token.Reveal()}}
	raw, err := v.connect(ctx)
	if err != nil {
		return nil, orCause(ctx, markTransient(err))
	}
	stop := context.AfterFunc(ctx, func() { raw.Close() })
	defer stop()
	ws, err := websocket.NewClient(config, raw)
	if err != nil {
		raw.Close()
		// The library does not return the status; the server's API, which is asked first, has
		// just answered.
		if err = markTransient(err); errors.Is(err, websocket.ErrBadStatus) {
			err = converge.Transient(err)
		}
		return nil, orCause(ctx, fmt.Errorf("websocket %s: %w", path, err))
	}
	return ws, nil
}

func (v *verifier) connect(ctx context.Context) (net.Conn, error) {
	port := cmp.Or(v.base.Port(), map[string]string{"http": "80", "https": "443"}[v.base.Scheme])
	raw, err := v.dial(ctx, "tcp", net.JoinHostPort(v.base.Hostname(), port))
	if err != nil || v.base.Scheme == "http" {
		return raw, err
	}
	config := v.tls.Clone()
	if config == nil {
		config = &tls.Config{}
	}
	config.ServerName = cmp.Or(config.ServerName, v.base.Hostname())
	config.NextProtos = []string{"http/1.1"} // websockets need it
	encrypted := tls.Client(raw, config)
	if err := encrypted.HandshakeContext(ctx); err != nil {
		raw.Close()
		return nil, err
	}
	return encrypted, nil
}

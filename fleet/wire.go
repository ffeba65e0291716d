package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/sideband"
	"github.com/go-git/go-git/v5/storage/memory"

	"github.com/cps-gpu/homelab/internal/limit"
)

// The services of a Git server (gitprotocol-pack(5)).
const (
	uploadPack  = "git-upload-pack"
	receivePack = "git-receive-pack"
)

// The most that is read from a Git server, in bytes. A repository with 100,000 branches and
// pull requests advertises some 8 MiB; the pack has only the newest commit's files.
const (
	maxAdvertised = 32 << 20
	maxPack       = 512 << 20
	maxReport     = 16 << 20 // including the output of hooks
)

// wire is a connection to a Git server. It replaces go-git's transports: its SSH transport
// dials without a context, and its HTTP transport sends the password wherever a server
// redirects.
type wire interface {
	// exchange opens a service, passes the server's advertisement to ask, sends the request that
	// ask returns, and passes the answer to read. Without a request it disconnects.
	exchange(ctx context.Context, service string, ask func(*packp.AdvRefs) (*bytes.Buffer, error), read func(io.Reader) error) error
}

func (r Remote) wire(p place) wire {
	if p.scheme == "ssh" {
		return sshWire{r, p}
	}
	return httpWire{r, p}
}

// readAdvertisement reads a server's references. An empty repository has none.
func readAdvertisement(r io.Reader) (*packp.AdvRefs, error) {
	refs := packp.NewAdvRefs()
	err := refs.Decode(limit.Reader(r, maxAdvertised))
	if large, ok := errors.AsType[*limit.Error](err); ok {
		return nil, fmt.Errorf("reading its branches: %w", large)
	}
	switch {
	case errors.Is(err, packp.ErrEmptyAdvRefs):
		return refs, nil
	case errors.Is(err, packp.ErrEmptyInput):
		return nil, io.ErrUnexpectedEOF
	}
	var line *pktline.ErrorLine
	if errors.As(err, &line) {
		return nil, fmt.Errorf("it says: %s", line.Text)
	}
	return refs, err
}

// tip is the commit of a repository's branch.
type tip struct {
	commit   plumbing.Hash // zero: the branch does not exist
	branches []string      // existing branches
	head     plumbing.Hash // commit of the default branch; zero in an empty repository
}

func tipOf(refs *packp.AdvRefs, branch string) tip {
	var t tip
	for name, hash := range refs.References {
		if b, ok := strings.CutPrefix(name, "refs/heads/"); ok {
			t.branches = append(t.branches, b)
			if b == branch {
				t.commit = hash
			}
		}
	}
	slices.Sort(t.branches)
	if refs.Head != nil {
		t.head = *refs.Head
	}
	return t
}

// fetch reads the branch's commit with all its files and without its history. If create is set
// and the branch does not exist, it reads the default branch's.
func fetch(ctx context.Context, w wire, branch string, create bool) (tip, *memory.Storage, error) {
	var t tip
	store := memory.NewStorage()
	var side sidebands
	err := w.exchange(ctx, uploadPack, func(refs *packp.AdvRefs) (*bytes.Buffer, error) {
		t = tipOf(refs, branch)
		want := t.commit
		if want.IsZero() && create {
			want = t.head
		}
		if want.IsZero() {
			return nil, nil
		}
		req := packp.NewUploadPackRequest()
		req.Wants = []plumbing.Hash{want}
		has := refs.Capabilities
		side = sidebandOf(has)
		for _, c := range []capability.Capability{side.capability, capability.OFSDelta} {
			if has.Supports(c) {
				_ = req.Capabilities.Set(c)
			}
		}
		if has.Supports(capability.Shallow) {
			_ = req.Capabilities.Set(capability.Shallow)
			req.Depth = packp.DepthCommits(1)
		}
		return request(req, &side)
	}, func(r io.Reader) error {
		res := packp.NewUploadPackResponse(side.request)
		if err := res.Decode(io.NopCloser(limit.Reader(r, maxPack))); err != nil {
			return err
		}
		return packfile.UpdateObjectStorage(plainStore{store}, side.demux(res, nil))
	})
	return t, store, err
}

// plainStore hides that a storage accepts whole packs.
type plainStore struct{ *memory.Storage }

func request(req *packp.UploadPackRequest, side *sidebands) (*bytes.Buffer, error) {
	side.request = req
	var b bytes.Buffer
	if err := req.UploadRequest.Encode(&b); err != nil {
		return nil, err
	}
	return &b, pktline.NewEncoder(&b).EncodeString("done\n")
}

// sidebands is the encoding of messages beside an answer's data.
type sidebands struct {
	capability capability.Capability
	request    *packp.UploadPackRequest
}

func sidebandOf(has *capability.List) sidebands {
	for _, c := range []capability.Capability{capability.Sideband64k, capability.Sideband} {
		if has.Supports(c) {
			return sidebands{capability: c}
		}
	}
	return sidebands{}
}

func (s sidebands) demux(r io.Reader, said io.Writer) io.Reader {
	var kind sideband.Type
	switch s.capability {
	case capability.Sideband64k:
		kind = sideband.Sideband64k
	case capability.Sideband:
		kind = sideband.Sideband
	default:
		return r
	}
	d := sideband.NewDemuxer(kind, r)
	if said != nil {
		d.Progress = said
	}
	return d
}

// send pushes objects and moves the branch from one commit to another. The server compares: a
// branch that is no longer at old does not move.
func send(ctx context.Context, w wire, branch string, old, new plumbing.Hash, objects []plumbing.Hash, store *memory.Storage) error {
	var side sidebands
	return w.exchange(ctx, receivePack, func(refs *packp.AdvRefs) (*bytes.Buffer, error) {
		if now := tipOf(refs, branch).commit; now != old {
			return nil, &refusal{status: "fetch first"}
		}
		req := packp.NewReferenceUpdateRequestFromCapabilities(refs.Capabilities)
		if !req.Capabilities.Supports(capability.ReportStatus) {
			return nil, errors.New("the server cannot say whether it accepted a commit (it lacks report-status)")
		}
		if side = sidebandOf(refs.Capabilities); side.capability != "" {
			_ = req.Capabilities.Set(side.capability)
		}
		req.Commands = []*packp.Command{{Name: plumbing.NewBranchReferenceName(branch), Old: old, New: new}}
		var pack, b bytes.Buffer
		if _, err := packfile.NewEncoder(&pack, store, false).Encode(objects, 10); err != nil {
			return nil, err
		}
		req.Packfile = io.NopCloser(&pack)
		return &b, req.Encode(&b)
	}, func(r io.Reader) error {
		var said messageBuffer
		report := packp.NewReportStatus()
		if err := report.Decode(side.demux(limit.Reader(r, maxReport), &said)); err != nil {
			return err
		}
		if err := report.Error(); err != nil {
			return &refusal{status: err.Error(), said: oneLine(said.String())}
		}
		return nil
	})
}

// maxSaid is how much of a server's message is shown, in bytes.
const maxSaid = 400

// messageBuffer keeps the beginning of a server's message, as much as is shown.
type messageBuffer struct{ bytes.Buffer }

func (w *messageBuffer) Write(b []byte) (int, error) {
	const some = 10 * maxSaid // blanks and colours are still to be removed
	if room := some - w.Len(); room > 0 {
		_, _ = w.Buffer.Write(b[:min(room, len(b))])
	}
	return len(b), nil
}

// oneLine prepares foreign text for an error: one line, printable, not too long.
func oneLine(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, s)
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > maxSaid {
		s = strings.ToValidUTF8(s[:maxSaid], "") + "…"
	}
	return s
}

package fleet

import (
	"bytes"
	"context"
	"errors"
	"io"

	"github.com/go-git/go-git/v5/plumbing/format/pktline"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/cps-gpu/homelab/remote"
	"github.com/cps-gpu/homelab/remote/ssh"
)

// sshWire is Git's protocol over a command of an SSH server (gitprotocol-pack(5)).
type sshWire struct {
	Remote
	place
}

func (w sshWire) exchange(ctx context.Context, service string, ask func(*packp.AdvRefs) (*bytes.Buffer, error),
	read func(io.Reader) error) error {
	if w.HostKeys == nil {
		return errors.New("no host key of the Git server is known: give a known_hosts file (ssh-keyscan writes one; compare it with what the server's owner says)")
	}
	client := ssh.New(ssh.Config{Addr: w.addr, User: w.place.user, Signers: w.Signers, HostKeys: w.HostKeys, Dial: w.Dial})
	defer func() { _ = client.Close() }()

	running, cancel := context.WithCancel(ctx)
	defer cancel()
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := client.Run(running, remote.Cmd{Args: []string{service, w.place.path}, Stdin: stdin, Stdout: stdout})
		_ = stdout.CloseWithError(io.EOF)
		_ = stdin.CloseWithError(io.ErrClosedPipe)
		ended <- err
	}()
	err := converse(in, out, ask, read)
	if err != nil {
		cancel() // the server may still wait for us
	}
	_ = in.Close()
	_, _ = io.Copy(io.Discard, out) // output after the answer; ends with the command
	_ = out.Close()
	if err = deeper(<-ended, err); ctx.Err() != nil && err != nil {
		return context.Cause(ctx)
	}
	return err
}

func converse(in io.Writer, out io.Reader, ask func(*packp.AdvRefs) (*bytes.Buffer, error), read func(io.Reader) error) error {
	refs, err := readAdvertisement(out)
	if err != nil {
		return err
	}
	body, err := ask(refs)
	if err != nil {
		_, _ = in.Write(pktline.FlushPkt) // "nothing to do", which ends the conversation
		return err
	}
	if body == nil {
		_, err := in.Write(pktline.FlushPkt)
		return err
	}
	if _, err := body.WriteTo(in); err != nil {
		return err
	}
	return read(out)
}

// deeper chooses between the command's own error and that of reading its output: the former is
// the reason for an output that ends early.
func deeper(run, talk error) error {
	var refused *refusal
	switch {
	case talk == nil, errors.As(talk, &refused):
		return talk
	case run == nil, errors.Is(run, context.Canceled):
		return talk
	}
	return run
}

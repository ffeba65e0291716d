package storages

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/answer"
	"github.com/cps-gpu/homelab/sim/pvesim/internal/world"
	"github.com/cps-gpu/homelab/sim/pvesim/model"
)

// cloudImage is how big the disk images of the simulated internet are taken to be,
// when it comes to how long they take: those that are smaller than any real one.
const (
	cloudImage    = 600 * model.MiB
	smallestImage = 192 * model.KiB
)

// mostRedirects is how many wget follows.
const mostRedirects = 20

// fetch downloads from the simulated internet, with what wget says of it.
func fetch(w world.Worker, raw, to string) ([]byte, error) {
	for range mostRedirects + 1 {
		data, err := fetchOnce(w, raw, to)
		var status *guest.StatusError
		if !errors.As(err, &status) {
			return data, err
		}
		raw, _ = status.Next(raw)
	}
	return nil, answer.Die("download failed: %d redirections exceeded.", mostRedirects)
}

// fetchOnce is one request of it. A redirection is a status of its own.
func fetchOnce(w world.Worker, raw, to string) (data []byte, err error) {
	now := func() string { return time.Now().Format(time.DateTime) }
	w.Log("--%s--  %s", now(), raw)
	w.State.WithoutLock(func() { data, err = w.State.Options.Internet(raw) })
	if !errors.Is(err, guest.ErrRefused) {
		w.Log("Connecting to %s... connected.", serverOf(raw))
	}
	var status *guest.StatusError
	switch {
	case errors.As(err, &status):
	case errors.Is(err, guest.ErrNotFound):
		status = &guest.StatusError{Code: 404, Reason: "Not Found"}
	case errors.Is(err, guest.ErrRefused):
		return nil, answer.Die("download failed: Connecting to %s... failed: Connection refused.", serverOf(raw))
	case errors.Is(err, guest.ErrUntrusted):
		w.Log("ERROR: cannot verify the certificate of %s: %v", raw, err)
		return nil, answer.Die("download failed: To connect insecurely, use `--no-check-certificate'.")
	case err != nil: // the last line that wget prints, where that is not empty (PVE/Tools.pm, run_command)
		return nil, answer.Die("download failed: %v", err)
	}
	if status != nil {
		if _, leads := status.Next(raw); leads {
			w.Log("HTTP request sent, awaiting response... %v\nLocation: %s [following]", status, status.Location)
			return nil, status
		}
		w.Log("HTTP request sent, awaiting response... %v\n%s ERROR %d: %s.", status, now(), status.Code, status.Reason)
		return nil, answer.Die("download failed: exit code 8")
	}
	size := model.Size(len(data))
	if world.IsQCOW2(data) && size < smallestImage {
		size = cloudImage
	}
	w.Log("HTTP request sent, awaiting response... 200 OK\nLength: %s [%s]\nSaving to: '%s'", length(size), mimeOf(pathOf(raw)), to)
	if err := dots(w, size); err != nil {
		return nil, err
	}
	w.Log("%s (98.1 MB/s) - '%s' saved [%d/%d]", now(), to, size, size)
	return data, nil
}

// length is a size as wget tells it.
func length(n model.Size) string {
	switch {
	case n >= 10*model.GiB:
		return fmt.Sprintf("%d (%dG)", n, n/model.GiB)
	case n >= model.MiB:
		return fmt.Sprintf("%d (%dM)", n, n/model.MiB)
	case n >= model.KiB:
		return fmt.Sprintf("%d (%dK)", n, n/model.KiB)
	}
	return fmt.Sprint(int64(n))
}

func pathOf(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return raw
	}
	return u.Path
}

// wgetLine is how much a line of wget's progress stands for (--progress=dot:giga).
const wgetLine = 32 * model.MiB

// dots is how long a download takes, with what wget prints of it.
func dots(w world.Worker, size model.Size) error {
	for at := model.Size(0); at < size; at += wgetLine {
		part := min(wgetLine, size-at)
		if err := w.Sleep(world.Took(part, w.State.Options.Timing.DownloadRate)); err != nil {
			return err
		}
		marks := ""
		for i := range int(part / model.MiB) {
			if i > 0 && i%8 == 0 {
				marks += " "
			}
			marks += "."
		}
		w.Log("%6dK %-35s%3d%% 98.1M=0s", at/model.KiB, marks, 100*(at+part)/size)
	}
	return nil
}

package pvesim

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/cps-gpu/homelab/sim/guest"
)

// cloudImage is how big the disk images of the simulated internet are taken to be,
// when it comes to how long they take: those that are smaller than any real one.
const (
	cloudImage    = 600 * MiB
	smallestImage = 192 * KiB
)

// fetch downloads from the simulated internet, with what wget says of it.
func (w worker) fetch(raw, to string) (data []byte, err error) {
	now := func() string { return time.Now().Format(time.DateTime) }
	w.log("--%s--  %s", now(), raw)
	w.s.outside(func() { data, err = w.s.opts.Internet(raw) })
	if !errors.Is(err, guest.ErrRefused) {
		w.log("Connecting to %s... connected.", serverOf(raw))
	}
	var status *guest.StatusError
	switch {
	case errors.As(err, &status):
	case errors.Is(err, guest.ErrNotFound):
		status = &guest.StatusError{Code: 404, Reason: "Not Found"}
	case errors.Is(err, guest.ErrRefused):
		return nil, die("download failed: Connecting to %s... failed: Connection refused.", serverOf(raw))
	case errors.Is(err, guest.ErrUntrusted):
		w.log("ERROR: cannot verify the certificate of %s: %v", raw, err)
		return nil, die("download failed: To connect insecurely, use `--no-check-certificate'.")
	case err != nil: // the last line that wget prints, where that is not empty (PVE/Tools.pm, run_command)
		return nil, die("download failed: %v", err)
	}
	if status != nil {
		w.log("HTTP request sent, awaiting response... %v\n%s ERROR %d: %s.", status, now(), status.Code, status.Reason)
		return nil, die("download failed: exit code 8")
	}
	size := Size(len(data))
	if isQcow2(data) && size < smallestImage {
		size = cloudImage
	}
	w.log("HTTP request sent, awaiting response... 200 OK\nLength: %s [%s]\nSaving to: '%s'", length(size), mimeOf(pathOf(raw)), to)
	if err := w.dots(size); err != nil {
		return nil, err
	}
	w.log("%s (98.1 MB/s) - '%s' saved [%d/%d]", now(), to, size, size)
	return data, nil
}

// length is a size as wget tells it.
func length(n Size) string {
	switch {
	case n >= 10*GiB:
		return fmt.Sprintf("%d (%dG)", n, n/GiB)
	case n >= MiB:
		return fmt.Sprintf("%d (%dM)", n, n/MiB)
	case n >= KiB:
		return fmt.Sprintf("%d (%dK)", n, n/KiB)
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
const wgetLine = 32 * MiB

// dots is how long a download takes, with what wget prints of it.
func (w worker) dots(size Size) error {
	for at := Size(0); at < size; at += wgetLine {
		part := min(wgetLine, size-at)
		if err := w.sleep(took(part, w.s.opts.Timing.DownloadRate)); err != nil {
			return err
		}
		marks := ""
		for i := range int(part / MiB) {
			if i > 0 && i%8 == 0 {
				marks += " "
			}
			marks += "."
		}
		w.log("%6dK %-35s%3d%% 98.1M=0s", at/KiB, marks, 100*(at+part)/size)
	}
	return nil
}

package llm

import (
	"fmt"
	"sort"
	"strings"
)

// contextStep is what a suggested context is a multiple of.
const contextStep = 1024

// largestContext is the largest context that fits, a multiple of 1024, or the one that is asked for if that
// fits; 0 if none does.
func (s Serving) largestContext() int {
	s = s.complete()
	if s.Fit().Fits() {
		return s.Context
	}
	fits := func(steps int) bool {
		s := s
		s.Context = steps * contextStep
		return s.Fit().Fits()
	}
	return contextStep * (sort.Search(s.Context/contextStep, func(i int) bool { return !fits(i + 1) }))
}

// bestQuantization is the engine's quantization with most bits that fits with the same context,
// and has less than the one that is asked for; empty if none does.
func (s Serving) bestQuantization() string {
	s = s.complete()
	now, _ := findQuantization(s.Engine, s.Quantization)
	for _, q := range Quantizations() {
		if q.Engine != s.Engine || q.Bits >= now.Bits || q.Experts && s.Model.Experts == 0 {
			continue
		}
		s.Quantization = q.Name
		if s.Fit().Fits() {
			return q.Name
		}
	}
	return ""
}

// fewestCards is the smallest number of such cards that the model fits on with the same context,
// a power of two up to 16; 0 if none is enough.
func (s Serving) fewestCards() int {
	for s.Cards = 1; s.Cards <= 16; s.Cards *= 2 {
		if s.Validate() == nil && s.Fit().Fits() {
			return s.Cards
		}
	}
	return 0
}

// Check says whether the model can be served: nil, what [Serving.Validate] reports, or a [*FitError].
func (s Serving) Check() error {
	if err := s.Validate(); err != nil {
		return err
	}
	s = s.complete()
	f := s.Fit()
	if f.Fits() {
		return nil
	}
	e := &FitError{Serving: s, Fit: f, Context: s.largestContext(), Quantization: s.bestQuantization(), Cards: s.fewestCards()}
	if e.Context == 0 && e.Quantization == "" {
		e.together()
	}
	return e
}

// usefulContext is the least context that is worth another quantization.
const usefulContext = 4096

// together finds a quantization that fits with a shorter context.
func (e *FitError) together() {
	s := e.Serving
	s.Context = min(s.Context, usefulContext)
	if e.Quantization = s.bestQuantization(); e.Quantization != "" {
		s.Quantization, s.Context = e.Quantization, e.Serving.Context
		e.Context, e.Together = s.largestContext(), true
	}
}

// FitError is a model that does not fit. Each of Context, Quantization and Cards alone would make
// it fit; 0 or empty: none would.
type FitError struct {
	Serving      Serving
	Fit          Fit
	Context      int
	Quantization string
	Together     bool // Context and Quantization fit only together
	Cards        int
}

// Error says what is lacking and what would fit.
func (e *FitError) Error() string {
	s := e.Serving
	var would []string
	if e.Context > 0 {
		would = append(would, fmt.Sprintf("context: %d", e.Context))
	}
	if e.Quantization != "" {
		would = append(would, "quantization: "+e.Quantization)
	}
	if e.Together {
		would = []string{strings.Join(would, " with ")}
	}
	if e.Cards > 0 {
		would = append(would, fmt.Sprintf("%d of these cards", e.Cards))
	}
	what := "no context, quantization or number of these cards fits: choose a smaller model"
	if len(would) > 0 {
		what = "these would fit: " + strings.Join(would, ", or ")
	}
	each := "the card"
	if s.Cards > 1 {
		each = fmt.Sprintf("each of the %d cards", s.Cards)
	}
	return fmt.Sprintf("%s (%s, %d tokens) lacks %s on %s: it takes %s; %s", s.Model.Name, s.Quantization, s.Context, gib(-e.Fit.Spare()), each, e.Fit, what)
}

package words

import "regexp"

// Rule is a phrase to avoid and what to write instead.
type Rule struct {
	Name    string         // as it stands in docs/style.md
	Match   *regexp.Regexp // what is found
	Except  *regexp.Regexp // phrases that Match finds and that are good English; nil for none
	Instead string         // what to write
	Wrong   string         // an example that the rule finds
	Right   string         // the same, said plainly
}

// Rules returns the list. Each is narrow: a rule that finds good English is worse than none.
func Rules() []Rule {
	rule := func(name, pattern, instead, wrong, right string) Rule {
		return Rule{Name: name, Match: regexp.MustCompile(pattern), Instead: instead, Wrong: wrong, Right: right}
	}
	rules := []Rule{
		rule("no more", `\bno more(?:[.,;:)]|$)`,
			"no longer", "The kernel has it no more.", "The kernel no longer has it."),
		rule("X is no Y", `\b[\w)"]+ is no [a-zA-Z]+`,
			"is not a", "cp1 is no agent.", "cp1 is not an agent."),
		rule("as asked", `\bas asked(?:[.,;:)]|$)`,
			"up to date", "All steps are as asked.", "All steps are up to date."),
		rule("whoever", `(?i)\bwho(?:m)?ever\b`,
			"name who it is, or: anyone who", "Tell whoever runs the mirror.", "Tell the administrator of the mirror."),
		rule("whose, as a noun", `(?i)\bwhoever's\b|\bwhose it is\b`,
			"who owns it", "whoever's VM it is", "no matter who owns the VM"),
		rule("somebody's", `(?i)\b(?:some|no|any)body's\b`,
			"another owner's; a user's", "somebody's VM", "another owner's VM"),
		rule("anew", `(?i)\banew\b`,
			"again; recreate", "The VM is made anew.", "The VM is recreated."),
		rule("for want of", `(?i)\bfor want of\b`,
			"because … is missing", "killed for want of memory", "killed because memory ran out"),
		rule("in the place of", `(?i)\bin the place of\b`,
			"instead of", "in the place of a login", "instead of a login"),
		rule("by need", `\bby need\b`,
			"on demand", "It starts the lab by need.", "It starts the lab on demand."),
		rule("can be had", `\b(?:can|could|may|cannot) be had\b`,
			"is available", "The card can be had.", "The card is available."),
		rule("take away", `(?i)\btak(?:es|en|e|ing)(?: \w+){0,2} away\b`,
			"remove, delete", "It takes the lease away.", "It deletes the lease."),
		rule("take back", `(?i)\btak(?:es|en|e|ing)(?: it| them)? back\b`,
			"undo, revert", "To take it back, reboot.", "To undo it, reboot."),
		rule("stands on", `(?i)\bstands? on\b|\bon (?:that|which|this) stands?\b`,
			"runs on; depends on", "On that stands the hub.", "The hub runs on top."),
		rule("tell of", `(?i)\b(?:tell|tells|told) of\b`,
			"describe, show, report", "The page tells of it.", "The page describes it."),
		rule("has not", `\b(?:has|have) not(?:[.,;:)]|$)`,
			"does not have", "modules that its kernel has not.", "modules that its kernel does not have."),
		rule("has it its", `(?i)\bhas (?:it|he|one) (?:its|his|one's)\b`,
			"does it have its", "Has it its address?", "Does it have its address?"),
		rule("is let", `\b(?:is|are|was|were) let (?:alone|go|be)\b`,
			"leave", "The VM is let alone.", "The VM is left alone."),
		rule("that one's", `(?i)\b(?:that|which|this) one's\b`,
			"name it", "that one's disks", "the old VM's disks"),
		rule("archaic", `(?i)\b(?:thence|whence|lest|therein|wherein|whilst|thereof|hitherto|thereupon)\b`,
			"then; from there; so that … not", "held, lest it starts", "held, so that it does not start"),
		rule("of use", `\b(?:is|are|was|were|be) of (?:no |any |some )?use\b`,
			"useful; helps", "Waiting is of no use.", "Waiting does not help."),
		rule("not begun", `\b(?:not|never) begun\b`,
			"not started", "The step was not begun.", "The step has not started."),
		rule("mend", `(?i)\bmend(?:s|ed|ing)?\b`,
			"fix", "Mend it and run it again.", "Fix it and run it again."),
		rule("for ever", `(?i)\bfor ever\b`,
			"forever", "It waits for ever.", "It waits forever."),
		rule("without a word", `(?i)\bwithout a word\b`,
			"silently", "Fleet skips the file without a word.", "Fleet silently skips the file."),
		rule("hold against", `\bh(?:old|olds|olding|eld) (?:\w+ ){1,4}against\b`,
			"compare with; check against", "The test holds the page against the code.", "The test compares the page with the code."),
		rule("what became of", `(?i)\bwhat (?:be)?c(?:omes?|ame) of\b`,
			"result, outcome, state", "It reports what became of the object.", "It reports the result for the object."),
		rule("all else", `(?i)\ball else\b`,
			"everything else", "All else is refused.", "Everything else is refused."),
	}
	for i := range rules {
		if rules[i].Name == "X is no Y" {
			rules[i].Except = regexp.MustCompile(`(?i)^there |no (?:longer|more|less|use|such|need|way|reason|doubt|room|sign|good|different|better|worse|other|one)$`)
		}
	}
	return rules
}

// Finding is a phrase that a rule found in a text.
type Finding struct {
	Rule   Rule
	Phrase string
}

// Find returns what the rules find in a text, whose lines are joined already.
func Find(rules []Rule, text string) []Finding {
	var all []Finding
	for _, r := range rules {
		for _, phrase := range r.Match.FindAllString(text, -1) {
			if r.Except == nil || !r.Except.MatchString(phrase) {
				all = append(all, Finding{r, phrase})
			}
		}
	}
	return all
}

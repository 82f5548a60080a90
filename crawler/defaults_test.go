package crawler

import "testing"

// TestBudgetDefaults: budgets that a program does not set have the defaults that are documented,
// and negative ones are no limit.
func TestBudgetDefaults(t *testing.T) {
	t.Parallel()
	opts, err := Options{}.defaults()
	if want := (Budgets{Domain: 10_000, Host: 1_000_000, Prefix: 500_000, Query: 10_000, Repeat: 3, Depth: 100, MaxHeld: 500_000}); err != nil || opts.Budgets != want {
		t.Errorf("%+v, %v, want %+v", opts.Budgets, err, want)
	}
	opts, err = Options{Limits: Limits{Budgets: Budgets{-1, -1, -1, -1, -1, -1, -1}}}.defaults()
	if err != nil || opts.Budgets != (Budgets{}) {
		t.Errorf("%+v, %v, want no limits", opts.Budgets, err)
	}
}

document.documentElement.dataset.script = "ran"

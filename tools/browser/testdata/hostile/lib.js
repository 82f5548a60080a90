var libLoaded = 1

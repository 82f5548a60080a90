document.write('<p>Grüße')

document.write('<p>classic<img src=1.png>')

import { text } from './sub/other.js';
document.body.append(text);

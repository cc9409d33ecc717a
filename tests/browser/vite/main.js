// Shows what text.js says, and tells the server what is shown: first, and after each hot update. All of it
// goes by vite's own WebSocket, which the page knows no other way to than the preview.
import { text } from './text.js';
import './style.css';

const shown = document.getElementById('text');
const born = Math.random(); // another one after a reload
let updates = 0;

function tell() {
  import.meta.hot.send('page:told', { name: updates, born, text: shown.textContent, colour: getComputedStyle(shown).color });
}

shown.textContent = text;
import.meta.hot.accept('./text.js', (changed) => (shown.textContent = changed.text));
import.meta.hot.on('vite:afterUpdate', () => {
  updates++;
  tell();
});
tell();
